"""Packages by the name that an import statement gives: of Python, on every GPU host, or published by others."""

from __future__ import annotations

STDLIB_OR_PRESENT = frozenset(
    "torch triton numpy math os sys functools itertools typing collections dataclasses contextlib textwrap hashlib "
    "tempfile pathlib subprocess importlib inspect ctypes time warnings types threading weakref re json struct enum "
    "abc copy operator random string traceback gc platform shutil logging __future__ atexit io pickle base64 zlib "
    "queue signal socket uuid glob fcntl errno builtins site sysconfig stat getpass numbers array bisect heapq "
    "statistics concurrent multiprocessing asyncio unittest argparse pprint fractions decimal".split()
)
# Packages that machines with such GPUs have: importing one is taken to succeed, of any other it is not known.
PACKAGES = frozenset(
    "tvm cuda cupy cupyx pycuda einops flash_attn flash_attn_interface flashinfer deep_gemm vllm "
    "sglang scipy transformer_engine apex xformers pybind11 ninja psutil pynvml nvidia cffi numba jax "
    "mlx packaging typing_extensions yaml tqdm torchao mamba_ssm fla quack nvmath "
    "setuptools torchvision transformers helion".split()
)
# Others that make kernels for others to call. A module that is in none of these sets is taken for a part of the
# submission.
PUBLISHED = frozenset(
    "aiter attn_gym auto_gptq autoawq awq awq_ext bitsandbytes causal_conv1d cudf cula cuml cuvs dgl "
    "exllama_kernels exllamav2 faiss fast_hadamard_transform fbgemm_gpu flag_gems flash_attn_2_cuda flash_attn_3 "
    "flash_mla functorch gemlite gptqmodel grouped_gemm hqq keras kornia liger_kernel lightllm lmdeploy marlin "
    "megablocks mslk natten onnxruntime opt_einsum optimum pylibraft pytorch3d quanto raft rmm sageattention "
    "scattermoe sgl_kernel skimage sklearn spas_sage_attn tensorflow tensorrt tensorrt_llm tinygrad torch_cluster "
    "torch_geometric torch_scatter torch_sparse torchsparse torchaudio triton_kernels turbomind unsloth "
    "vllm_flash_attn".split()
)
