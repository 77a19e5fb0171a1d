"""The service measured on itself: detection, blame and false findings, and what every backend can express."""
