"""Programs that write data of this repository, and are no part of what it installs."""
