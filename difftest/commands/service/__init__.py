"""What commands share: a cluster, storage, environments, and running scripts. Commands parse, call this, and print."""
