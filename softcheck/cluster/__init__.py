"""Workers on several GPUs and hosts: a Dask cluster starts, watches and reaches them; the pool says what each one runs."""
