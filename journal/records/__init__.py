"""What a record is, to the byte."""
