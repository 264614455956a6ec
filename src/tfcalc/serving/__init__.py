"""Memory of inference: formats of weights, caches and their paging, and what one step of inference needs beside."""
