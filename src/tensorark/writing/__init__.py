"""Writing files: the writer of `.zt`, copies of blobs as stored, generations, arrays by suffix."""
