"""Links memories that are near in meaning."""
