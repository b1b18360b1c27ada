"""Files that appear whole or not at all: JSON, TOML with line numbers in its errors, and arrays without pickle."""

from gaussip.files.atomic import json_ready, refuse_overwriting, sync_folder, whole, write_json

__all__ = ["json_ready", "refuse_overwriting", "sync_folder", "whole", "write_json"]
