"""Cases: everything that must be equal on every backend, as frozen data that JSON can hold.

Nothing here needs torch.
"""
