"""Measurements that ship with Holdfast: `holdfast bench`."""
