"""What happens in the vault outside of Ormah is noticed here and brought in."""
