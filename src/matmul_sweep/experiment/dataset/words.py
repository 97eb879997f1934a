"""Words in the columns of the tables: cache states, modes, and what slows a card down."""

MODES = ("burst", "sustained")
CACHES = ("hot", "rotated", "cold", "alone")
CHOSEN = ("cold",)  # for which a sweep may name kernels
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
