"""The parts that several packages of scripts use."""
