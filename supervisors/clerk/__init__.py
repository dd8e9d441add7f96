"""What becomes of sessions that came to ERROR or are stuck, and of stories whose coder is gone."""
