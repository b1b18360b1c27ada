"""Simulation studies: designs in TOML, a runner that resumes, and reports beside published numbers."""
