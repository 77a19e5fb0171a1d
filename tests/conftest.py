"""What holds for every test: Hypothesis measures no deadlines, for machines and their loads differ."""

from hypothesis import settings

settings.register_profile("difftest", deadline=None)
settings.load_profile("difftest")
