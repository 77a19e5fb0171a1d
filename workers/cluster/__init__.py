"""The cluster: Ray actors, who gets which worker, and which backend runs in which Python."""
