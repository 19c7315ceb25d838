"""The files of multilingual-e5-small, `model.onnx` and `tokenizer.json`. Ormah reads them; there is no code to run."""
