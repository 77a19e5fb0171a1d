"""What releases changed, for people and programs: JSON, SARIF, a feed and a page."""
