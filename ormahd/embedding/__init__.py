"""Embedders turn texts into vectors. A model runs on ONNX Runtime or on torch."""
