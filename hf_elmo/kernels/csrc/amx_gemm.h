// Products of blocks of rows with packed panels of a weight: by vectors, or by the processor's tiles of bf16 (AMX).
//
// A panel holds 16 columns of a weight (K, columns): (K, 16) numbers, of bf16 two of K side by side, (K / 2, 16, 2).
#pragma once

#include "vectors.h"

#if defined(CPU_CAPABILITY_AVX512) && defined(__x86_64__) && defined(__linux__) && \
    (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#define HF_ELMO_AMX
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

// Rows of a tile, columns of a panel, and the most of both in one product.
constexpr int64_t kTile = 16, kTiles = 2;
constexpr int kPanels = 4;
// Numbers of K after which the vectors' sums are put down, so that a group of panels stays in the first cache, and that
// many roundings in a row are the most.
constexpr int64_t kDepth = 64;

// R rows with P panels, over `depth` numbers of K, into or onto rows of `out`. What lies as far behind the panels as
// they are long, which comes next, is fetched from memory meanwhile.
template <int R, int P>
void multiply_rows_by_panels(
    const float* a, int64_t step, const float* panels, int64_t panel_size, int64_t depth, bool adds, float* out,
    int64_t pitch) {
  constexpr int64_t length = Vec<float>::size();
  constexpr int vectors = P * kTile / length, per_panel = kTile / length;
  Vec<float> sums[R][vectors];
  for (int row = 0; row < R; ++row) {
    for (int v = 0; v < vectors; ++v) {
      sums[row][v] = Vec<float>(0);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vec<float> columns[vectors];
    for (int v = 0; v < vectors; ++v) {
      columns[v] = Vec<float>::loadu(panels + v / per_panel * panel_size + k * kTile + v % per_panel * length);
    }
    for (int panel = 0; panel < P; ++panel) {
      __builtin_prefetch(panels + (P + panel) * panel_size + k * kTile, 0, 2);
    }
    for (int row = 0; row < R; ++row) {
      const Vec<float> number(a[row * step + k]);
      for (int v = 0; v < vectors; ++v) {
        sums[row][v] = at::vec::fmadd(number, columns[v], sums[row][v]);
      }
    }
  }
  for (int row = 0; row < R; ++row) {
    for (int v = 0; v < vectors; ++v) {
      float* const to = out + row * pitch + v * length;
      (adds ? Vec<float>::loadu(to) + sums[row][v] : sums[row][v]).store(to);
    }
  }
}

// The products of rows, `step` numbers apart, with some panels, `panel_size` numbers apart, into the first columns of
// rows of `out` that lie `pitch` apart.
void multiply_panels(
    const float* a, int64_t step, int64_t rows, const float* panels, int64_t panel_size, int64_t num_panels,
    int64_t size, float* out, int64_t pitch) {
  constexpr bool is_wide = sizeof(Vec<float>) == 64;
  const int64_t blocks = at::divup(rows, 6);
  for (int64_t k = 0; k < size; k += kDepth) {
    const int64_t depth = std::min(kDepth, size - k);
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t first = block * rows / blocks, count = (block + 1) * rows / blocks - first;
      const float* const from = a + first * step + k;
      float* const to = out + first * pitch;
      for (int64_t panel = 0; panel < num_panels;) {
        // Up to 6 rows with four panels: the sums and factors take 29 of 32 registers; with one of 16 numbers in two
        // vectors 15 of 16.
        constexpr int most = is_wide ? kPanels : 1;
        const float* const columns = panels + panel * panel_size + k * kTile;
        const bool is_group = num_panels - panel >= most;
        with_constant<6>(count, [&](auto rows) C10_ALWAYS_INLINE_ATTRIBUTE {
          const auto run = is_group ? multiply_rows_by_panels<rows.value, most> : multiply_rows_by_panels<rows.value, 1>;
          run(from, step, columns, panel_size, depth, k > 0, to + panel * kTile, pitch);
        });
        panel += is_group ? most : 1;
      }
    }
  }
}

// Whether the processor has AMX for bf16, and this process may use it.
bool has_amx_bf16() {
#ifdef HF_ELMO_AMX
  static const bool is_usable = [] {
    unsigned int a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned int of_bfloat16 = 1u << 22, tiles = 1u << 24;
    const bool is_there = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & of_bfloat16) != 0 && (d & tiles) != 0;
    // Linux wants to be asked, once per process, for the space that they take in a thread's state.
    constexpr long request = 0x1023, tile_data = 18;
    return is_there && syscall(SYS_arch_prctl, request, tile_data) == 0;
  }();
  return is_usable;
#else
  return false;
#endif
}

#ifdef HF_ELMO_AMX
#define HF_ELMO_WITH_AMX __attribute__((target("amx-tile,amx-bf16")))

// Sets the tiles of this thread up as long as it lives: eight of 16 rows of 64 bytes.
class Tiles {
 public:
  HF_ELMO_WITH_AMX Tiles() {
    // Outside of the stack: GCC believes that only the first bytes are read, and would not write the others.
    alignas(64) static const struct {
      uint8_t palette = 1, first_row = 0, reserved[14] = {};
      uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } settings;
    _tile_loadconfig(&settings);
  }
  HF_ELMO_WITH_AMX ~Tiles() {
    _tile_release();
  }
};

// As for float32, with sums of float32, for one or two whole tiles of rows and an even number of panels; `size` is a
// multiple of 32.
HF_ELMO_WITH_AMX __attribute__((noinline)) void multiply_panels(
    const at::BFloat16* a, int64_t step, int64_t rows, const at::BFloat16* panels, int64_t panel_size,
    int64_t num_panels, int64_t size, float* out, int64_t pitch) {
  // GCC does not know that tiles are loaded from memory: what was written before is to be there.
  asm volatile("" ::: "memory");
  constexpr int64_t depth = 32;
  const int64_t row_bytes = 2 * step, out_bytes = 4 * pitch;
  // The second tile's first row; a single one takes both places.
  const int64_t lower = rows > kTile ? kTile : 0;
  for (int64_t panel = 0; panel < num_panels;) {
    const at::BFloat16* const columns = panels + panel * panel_size;
    float* const to = out + panel * kTile;
    const bool is_group = lower == 0 && panel + kPanels <= num_panels;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (is_group) {
      // One tile of rows with four panels.
      for (int64_t k = 0; k < size; k += depth) {
        const at::BFloat16* const first = columns + k * kTile;
        _tile_loadd(4, a + k, row_bytes);
        _tile_loadd(5, first, 64);
        _tile_loadd(6, first + panel_size, 64);
        _tile_dpbf16ps(0, 4, 5);
        _tile_loadd(7, first + 2 * panel_size, 64);
        _tile_dpbf16ps(1, 4, 6);
        _tile_loadd(5, first + 3 * panel_size, 64);
        _tile_dpbf16ps(2, 4, 7);
        _tile_dpbf16ps(3, 4, 5);
      }
      _tile_stored(2, to + 2 * kTile, out_bytes);
      _tile_stored(3, to + 3 * kTile, out_bytes);
    } else {
      // Two tiles of rows with two panels: each of the four that are loaded is multiplied twice.
      for (int64_t k = 0; k < size; k += depth) {
        _tile_loadd(4, a + k, row_bytes);
        _tile_loadd(6, columns + k * kTile, 64);
        _tile_loadd(5, a + lower * step + k, row_bytes);
        _tile_loadd(7, columns + panel_size + k * kTile, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
      }
      _tile_stored(2, to + lower * pitch, out_bytes);
      _tile_stored(3, to + lower * pitch + kTile, out_bytes);
    }
    _tile_stored(0, to, out_bytes);
    _tile_stored(1, to + kTile, out_bytes);
    panel += is_group ? kPanels : 2;
  }
}
#endif

} // namespace
