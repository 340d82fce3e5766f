// Types and signatures that our CUDA idioms use from torch, without bodies: enough for nvcc to compile them to objects.
#pragma once
#include <cuda_runtime.h>
#include <cstdint>
#include <initializer_list>

namespace c10 {
struct BFloat16 { uint16_t x; };
struct Half { uint16_t x; };
enum class ScalarType { Byte, Float, BFloat16, Half, Float8_e4m3fn };
struct Device { int index() const; };
}  // namespace c10

namespace at {
using c10::BFloat16;
using c10::Half;
using c10::ScalarType;
constexpr ScalarType kByte = ScalarType::Byte;
constexpr ScalarType kFloat = ScalarType::Float;
constexpr ScalarType kFloat32 = ScalarType::Float;
constexpr ScalarType kBFloat16 = ScalarType::BFloat16;
constexpr ScalarType kHalf = ScalarType::Half;
constexpr ScalarType kFloat8_e4m3fn = ScalarType::Float8_e4m3fn;

struct TensorOptions {
    TensorOptions dtype(ScalarType) const;
    TensorOptions device(c10::Device) const;
};
using Sizes = std::initializer_list<int64_t>;

struct Tensor {
    int64_t size(int64_t) const;
    int64_t stride(int64_t) const;
    int64_t numel() const;
    bool is_cuda() const;
    bool is_contiguous() const;
    ScalarType scalar_type() const;
    c10::Device device() const;
    TensorOptions options() const;
    Tensor contiguous() const;
    Tensor to(ScalarType) const;
    void* data_ptr() const;
    template <typename T> T* data_ptr() const;
};

Tensor empty(Sizes, TensorOptions);
Tensor zeros(Sizes, TensorOptions);
Tensor empty_like(const Tensor&);
TensorOptions dtype(ScalarType);
}  // namespace at

namespace torch { using namespace at; }

void stub_check(bool);
#define TORCH_CHECK(condition, ...) stub_check(condition)
struct StubModule { template <typename F> void def(const char*, F, const char* = ""); };
#define TORCH_EXTENSION_NAME stub
#define PYBIND11_MODULE(name, variable) static void stub_init(StubModule& variable)
