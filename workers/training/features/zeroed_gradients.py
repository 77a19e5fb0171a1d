"""`zero_grad` at the place that the options say. Equal to that of the loop, which is behind the update."""

from difftest.cases.features.zeroed_gradients import Options
from workers.training.features import Hooks, TrainingProgress, nothing


def hooks(options: Options) -> Hooks:
    """By the module or the optimizer, in place of the loop."""

    def zero(progress: TrainingProgress) -> None:
        (progress.module if options.by == "model" else progress.optimizer).zero_grad()

    match options.place:
        case "before":
            return Hooks(zeroes=True, before=zero)
        case "forward":
            return Hooks(zeroes=True, forwarded=zero)
        case _:  # the loop's has the argument
            return Hooks()


equal = nothing
