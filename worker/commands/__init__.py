"""What can be typed behind `manyhands worker`."""
