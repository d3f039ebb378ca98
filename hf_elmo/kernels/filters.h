// The maximum of each filter over a word's windows of characters: the convolutions of a token encoder, in inference.
#pragma once

#include "vectors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <limits>
#include <numeric>
#include <vector>

namespace {

// Windows and vectors of filters whose sums are held in registers together: 6 x 4 of 32, or 3 x 4 of 16.
template <typename T>
constexpr int64_t most_windows() {
  return sizeof(Vec<T>) == 64 ? 6 : 3;
}

// Takes W windows, each `step` numbers after the one before, into the maxima of V vectors of filters. The weight lies
// as (size, pitch): one row for each number of a window.
template <int W, int V, typename T>
C10_ALWAYS_INLINE void take_windows(
    const T* windows, int64_t step, const T* weight, int64_t size, int64_t pitch, Vec<T> (&maxima)[V]) {
  Vec<T> sums[W][V];
  for (int w = 0; w < W; ++w) {
    for (int v = 0; v < V; ++v) {
      sums[w][v] = Vec<T>(0);
    }
  }
  for (int64_t k = 0; k < size; ++k) {
    Vec<T> column[V];
    for (int v = 0; v < V; ++v) {
      column[v] = Vec<T>::loadu(weight + k * pitch + v * Vec<T>::size());
    }
    for (int w = 0; w < W; ++w) {
      const Vec<T> number(windows[w * step + k]);
      for (int v = 0; v < V; ++v) {
        sums[w][v] = at::vec::fmadd(number, column[v], sums[w][v]);
      }
    }
  }
  for (int w = 0; w < W; ++w) {
    for (int v = 0; v < V; ++v) {
      maxima[v] = at::vec::maximum(maxima[v], sums[w][v]);
    }
  }
}

template <int V, typename T>
void take_all_windows(
    int64_t count, const T* windows, int64_t step, const T* weight, int64_t size, int64_t pitch, T* found) {
  Vec<T> maxima[V];
  for (int v = 0; v < V; ++v) {
    maxima[v] = Vec<T>(-std::numeric_limits<T>::infinity());
  }
  const int64_t blocks = at::divup(count, most_windows<T>());
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t taken = count / blocks + (block < count % blocks);
    switch (taken) {
      case 1:
        take_windows<1>(windows, step, weight, size, pitch, maxima);
        break;
      case 2:
        take_windows<2>(windows, step, weight, size, pitch, maxima);
        break;
      case 3:
        take_windows<3>(windows, step, weight, size, pitch, maxima);
        break;
      case 4:
        take_windows<4>(windows, step, weight, size, pitch, maxima);
        break;
      case 5:
        take_windows<5>(windows, step, weight, size, pitch, maxima);
        break;
      default:
        take_windows<6>(windows, step, weight, size, pitch, maxima);
    }
    windows += taken * step;
  }
  for (int v = 0; v < V; ++v) {
    maxima[v].store(found + v * Vec<T>::size());
  }
}

// Maxima of filters of all widths, (N, F), before their bias.
//
// characters: (N, S, D), embedded. windows: how many windows of a width a word has, (number of widths, N). weights: for
// each width (width * D, filters, rounded up to `columns`). counts: filters of each width.
template <typename T>
Tensor find_maxima(
    const Tensor& characters, const Tensor& windows, const std::vector<Tensor>& weights, at::IntArrayRef counts) {
  const int64_t num_words = characters.size(0), step = characters.size(2), pitch = characters.size(1) * step;
  const int64_t num_filters = std::accumulate(counts.begin(), counts.end(), int64_t(0));
  const Tensor found = at::empty({num_words, num_filters}, characters.options());
  constexpr int64_t length = Vec<T>::size();
  at::parallel_for(0, num_words, 4, [&](int64_t first, int64_t last) {
    int64_t place = 0;
    for (size_t width = 0; width < weights.size(); ++width) {
      const T* const weight = weights[width].data_ptr<T>();
      const int64_t size = weights[width].size(0), columns = weights[width].size(1);
      const int64_t* const word_windows = windows.data_ptr<int64_t>() + width * num_words;
      for (int64_t column = 0; column < columns;) {
        const int64_t vectors = (columns - column) / length;
        const int64_t taken = (vectors >= 4 ? 4 : vectors >= 2 ? 2 : 1) * length;
        for (int64_t word = first; word < last; ++word) {
          const T* const from = characters.data_ptr<T>() + word * pitch;
          T maxima[4 * length];
          if (vectors >= 4) {
            take_all_windows<4>(word_windows[word], from, step, weight + column, size, columns, maxima);
          } else if (vectors >= 2) {
            take_all_windows<2>(word_windows[word], from, step, weight + column, size, columns, maxima);
          } else {
            take_all_windows<1>(word_windows[word], from, step, weight + column, size, columns, maxima);
          }
          const int64_t kept = std::min(taken, counts[width] - column);
          std::copy(maxima, maxima + std::max<int64_t>(kept, 0), row_of<T>(found, word) + place + column);
        }
        column += taken;
      }
      place += counts[width];
    }
  });
  return found;
}

Tensor filter_maxima(
    const Tensor& characters, const Tensor& windows, const std::vector<Tensor>& weights, at::IntArrayRef counts) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  if (characters.scalar_type() == at::kDouble) {
    return find_maxima<double>(characters.contiguous(), windows.contiguous(), weights, counts);
  }
  return find_maxima<float>(characters.contiguous(), windows.contiguous(), weights, counts);
}

} // namespace
