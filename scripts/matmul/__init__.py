"""What the steps share: catalogue, shapes, device, timing, verification, data set."""
