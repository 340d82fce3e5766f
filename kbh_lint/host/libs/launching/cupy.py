"""CuPy: kernels that it compiles from texts, and arrays."""

from __future__ import annotations

from kbh_lint.base.values import Value
from kbh_lint.host.libs.launching import raw_kernels
from kbh_lint.host.libs.plain import Foreign
from kbh_lint.host.values.modelled import Site, models

REFUSED = "cupy_backends.cuda.api.driver.CUDADriverError"  # what it raises where the driver refuses a launch


class Cupy(Foreign):
    """The package `cupy`, of which only what compiles texts is followed."""

    @models("cupy.RawKernel")
    def kernel(self, site: Site, code: Value = None, name: Value = None, *more: Value, **options: Value) -> Value:
        """Models `cupy.RawKernel(code, name)`."""
        return raw_kernels.kernel(site.run, code, name, site.loc, REFUSED)

    @models("cupy.RawModule")
    def module(
        self, site: Site, code: Value = None, options: Value = (), backend: Value = "", *, path: Value = None,
        **more: Value,
    ) -> Value:  # fmt: skip
        """Models `cupy.RawModule(code=...)`."""
        return raw_kernels.module(site.run, code, site.loc, (), REFUSED, path)
