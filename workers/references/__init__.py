"""References of another make: what training is by its definitions, in numpy and JAX and without torch.

They are written from papers and documentation, and never from torch's code: what is wrong there in one
place for every device shows beside them alone. Optimizers and layers are a file each.
"""
