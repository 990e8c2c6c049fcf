"""Tests of the web page in Chromium, over a mesh of real processes."""
