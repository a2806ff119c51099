"""The documents' pictures, drawn by the package's own functions: `make pictures`."""
