"""The worker side: isolated runs of a case on a backend, and Ray to carry them.

The only package that imports torch and Ray.
"""
