"""Words in the columns of the tables: cache states, modes, ceilings, and what slows a card down."""

MODES = ("burst", "sustained")
CACHES = ("hot", "cold", "alone", "rotated")  # the last one in earlier sets only
POWER = "power_cap"
THERMAL = ("hw_slowdown", "sw_thermal", "hw_thermal")
# Why a card slows down, besides idling and the user's own clock settings, and NVML's name of it.
REASONS = {
    POWER: "SwPowerCap",
    "hw_slowdown": "HwSlowdown",
    "sw_thermal": "SwThermalSlowdown",
    "hw_thermal": "HwThermalSlowdown",
    "power_brake": "HwPowerBrakeSlowdown",
}
# What the highest rates of a card are measured of, and the unit of each.
CEILINGS = {
    "multiply_add_float32": "TFLOP/s",
    "multiply_add_float64": "TFLOP/s",
    "tensor_float64": "TFLOP/s",
    "copy": "GB/s",
}
