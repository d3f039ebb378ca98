// A token encoder's filters by tables: the maximum of each filter over a word's windows of characters, and back.
//
// What a filter of width W makes of a window is a sum of W numbers: for each place of the window one that depends on the
// character there alone. A table holds these numbers for each character that occurs, (W, characters), so that a window
// costs W additions instead of W D multiplications (D numbers to a character's vector). The gradient of a maximum goes
// to one window, so that the way back adds W numbers to the table for each word and filter.
//
// A block of filters at a time, whose table stays in the caches. No two threads write to one number, and what is added
// up is added up in one order, whatever the number of threads.
#pragma once

#include "vectors.h"

#include <ATen/Dispatch.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <numeric>
#include <tuple>
#include <vector>

namespace {

// Vectors of filters in a block.
constexpr int64_t kVectors = 2;

template <typename T>
constexpr int64_t kFilters = kVectors * Vec<T>::size();

// The words' characters as numbers among those that occur.
struct Words {
  int64_t count, pitch; // words, and characters per row
  std::vector<int64_t> lengths; // characters of each word before its padding
  std::vector<int32_t> characters; // (count, pitch), up to where the longest filter's last window ends
  std::vector<int64_t> occurring; // the characters' ids

  // Windows behind the first that holds nothing but padding are like it, and are left out.
  int64_t num_windows(int64_t word, int64_t width) const {
    return std::min(lengths[word] + 1, pitch + 1 - width);
  }
};

Words read_words(const Tensor& char_ids, int64_t padding, int64_t vocabulary, at::TensorList weights) {
  int64_t widest = 0;
  for (const Tensor& weight : weights) {
    TORCH_CHECK(weight.is_contiguous(), "filters want contiguous weights");
    widest = std::max(widest, weight.size(2));
  }
  TORCH_CHECK(
      widest <= char_ids.size(1), "words of ", char_ids.size(1), " characters are too short for filters of width ", widest);
  Words words{char_ids.size(0), char_ids.size(1), {}, std::vector<int32_t>(char_ids.numel()), {}};
  std::vector<int32_t> number_of(vocabulary, -1);
  for (int64_t word = 0; word < words.count; ++word) {
    const int64_t* const row = row_of<int64_t>(char_ids, word);
    int64_t length = words.pitch;
    while (length > 0 && row[length - 1] == padding) {
      --length;
    }
    words.lengths.push_back(length);
    for (int64_t place = 0; place < std::min(length + widest, words.pitch); ++place) {
      TORCH_CHECK_INDEX(0 <= row[place] && row[place] < vocabulary, "character id ", row[place], " is out of range");
      int32_t& number = number_of[row[place]];
      if (number < 0) {
        number = words.occurring.size();
        words.occurring.push_back(row[place]);
      }
      words.characters[word * words.pitch + place] = number;
    }
  }
  return words;
}

// Some filters of one width, side by side: their weights, (width, D, filters), and what they make of each character
// that occurs, (width, characters, filters).
template <typename T>
class FilterBlock {
 public:
  FilterBlock(const Words& words, const Tensor& embedding, const Tensor& weight, int64_t first)
      : words_(words),
        embedding_(embedding),
        size_(weight.size(1)),
        width_(weight.size(2)),
        first_(first),
        taken_(std::min(kFilters<T>, weight.size(0) - first)),
        columns_(width_ * size_ * kVectors, Vec<T>(0)) {
    T* const columns = reinterpret_cast<T*>(columns_.data());
    for (int64_t filter = 0; filter < taken_; ++filter) {
      const T* const from = weight.data_ptr<T>() + (first + filter) * size_ * width_;
      for (int64_t d = 0; d < size_; ++d) {
        for (int64_t place = 0; place < width_; ++place) {
          columns[(place * size_ + d) * kFilters<T> + filter] = from[d * width_ + place];
        }
      }
    }
  }

  // The maxima, into (N, F) from their first column on, and where they win the number of their window in its word.
  void forward(const Tensor& bias, const Tensor& all_maxima, const Tensor& winners, int64_t column) const {
    const std::vector<Vec<T>> table = tabulate();
    T addends[kFilters<T>] = {};
    std::copy_n(bias.data_ptr<T>() + first_, taken_, addends);
    for (int64_t word = 0; word < words_.count; ++word) {
      const int32_t* const characters = words_.characters.data() + word * words_.pitch;
      Vec<T> maxima[kVectors], places[kVectors];
      sum_window(table, characters, maxima);
      places[0] = places[1] = Vec<T>(0);
      const int64_t windows = words_.num_windows(word, width_);
      for (int64_t place = 1; place < windows; ++place) {
        Vec<T> sums[kVectors];
        sum_window(table, characters + place, sums);
        for (int64_t v = 0; v < kVectors; ++v) {
          // The first of equal ones, and NaN before all, as torch has it.
          const Vec<T> wins = (sums[v] > maxima[v]) | (sums[v] != sums[v]);
          maxima[v] = Vec<T>::blendv(maxima[v], sums[v], wins);
          places[v] = Vec<T>::blendv(places[v], Vec<T>(T(place)), wins);
        }
      }
      T values[kFilters<T>], numbers[kFilters<T>];
      for (int64_t v = 0; v < kVectors; ++v) {
        const int64_t at = v * Vec<T>::size();
        (maxima[v] + Vec<T>::loadu(addends + at)).store(values + at);
        places[v].store(numbers + at);
      }
      std::copy_n(values, taken_, row_of<T>(all_maxima, word) + column);
      if (winners.numel()) {
        std::copy_n(numbers, taken_, row_of<uint8_t>(winners, word) + column);
      }
    }
  }

  // From the gradient of the maxima, (N, F) from their first column on, those of the weight and the bias, and this
  // block's share in that of the characters that occur, (characters, D).
  void backward(
      const Tensor& gradient,
      const Tensor& winners,
      int64_t column,
      const Tensor& weight_gradient,
      const Tensor& bias_gradient,
      T* embedding_gradient) const {
    const int64_t occurring = words_.occurring.size();
    const std::vector<Vec<T>> tables = scatter(gradient, winners, column, bias_gradient.data_ptr<T>() + first_);
    std::vector<Vec<T>> sums(occurring * size_, Vec<T>(0)), columns(size_ * kVectors, Vec<T>(0));
    for (int64_t place = 0; place < width_; ++place) {
      std::fill(columns.begin(), columns.end(), Vec<T>(0));
      for (int64_t character = 0; character < occurring; ++character) {
        const T* const vector = row_of<T>(embedding_, words_.occurring[character]);
        const Vec<T>* const table = tables.data() + (place * occurring + character) * kVectors;
        for (int64_t d = 0; d < size_; ++d) {
          const Vec<T>* const weight = columns_.data() + (place * size_ + d) * kVectors;
          for (int64_t v = 0; v < kVectors; ++v) {
            columns[d * kVectors + v] = at::vec::fmadd(Vec<T>(vector[d]), table[v], columns[d * kVectors + v]);
            sums[character * size_ + d] = at::vec::fmadd(weight[v], table[v], sums[character * size_ + d]);
          }
        }
      }
      const T* const gradients = reinterpret_cast<const T*>(columns.data());
      for (int64_t filter = 0; filter < taken_; ++filter) {
        T* const to = weight_gradient.data_ptr<T>() + (first_ + filter) * size_ * width_ + place;
        for (int64_t d = 0; d < size_; ++d) {
          to[d * width_] = gradients[d * kFilters<T> + filter];
        }
      }
    }
    for (size_t index = 0; index < sums.size(); ++index) {
      T values[Vec<T>::size()];
      sums[index].store(values);
      embedding_gradient[index] = std::accumulate(values, values + Vec<T>::size(), T(0));
    }
  }

 private:
  std::vector<Vec<T>> tabulate() const {
    const int64_t occurring = words_.occurring.size();
    std::vector<Vec<T>> table(width_ * occurring * kVectors);
    for (int64_t place = 0; place < width_; ++place) {
      for (int64_t character = 0; character < occurring; ++character) {
        const T* const vector = row_of<T>(embedding_, words_.occurring[character]);
        const Vec<T>* const weight = columns_.data() + place * size_ * kVectors;
        Vec<T> sums[kVectors] = {Vec<T>(0), Vec<T>(0)};
        for (int64_t d = 0; d < size_; ++d) {
          for (int64_t v = 0; v < kVectors; ++v) {
            sums[v] = at::vec::fmadd(Vec<T>(vector[d]), weight[d * kVectors + v], sums[v]);
          }
        }
        std::copy_n(sums, kVectors, table.data() + (place * occurring + character) * kVectors);
      }
    }
    return table;
  }

  C10_ALWAYS_INLINE void sum_window(
      const std::vector<Vec<T>>& table, const int32_t* characters, Vec<T> (&sums)[kVectors]) const {
    const int64_t step = words_.occurring.size() * kVectors;
    const Vec<T>* place = table.data();
    std::copy_n(place + characters[0] * kVectors, kVectors, sums);
    for (int64_t index = 1; index < width_; ++index) {
      place += step;
      for (int64_t v = 0; v < kVectors; ++v) {
        sums[v] = sums[v] + place[characters[index] * kVectors + v];
      }
    }
  }

  // The gradient of the table, and that of the bias.
  std::vector<Vec<T>> scatter(const Tensor& gradient, const Tensor& winners, int64_t column, T* bias_gradient) const {
    const int64_t step = words_.occurring.size() * kFilters<T>;
    std::vector<Vec<T>> table(width_ * words_.occurring.size() * kVectors, Vec<T>(0));
    for (int64_t word = 0; word < words_.count; ++word) {
      const int32_t* const characters = words_.characters.data() + word * words_.pitch;
      const T* const from = row_of<T>(gradient, word) + column;
      const uint8_t* const places = row_of<uint8_t>(winners, word) + column;
      for (int64_t filter = 0; filter < taken_; ++filter) {
        bias_gradient[filter] += from[filter];
        T* to = reinterpret_cast<T*>(table.data()) + filter;
        const int32_t* const window = characters + places[filter];
        for (int64_t index = 0; index < width_; ++index, to += step) {
          to[window[index] * kFilters<T>] += from[filter];
        }
      }
    }
    return table;
  }

  const Words& words_;
  const Tensor& embedding_;
  const int64_t size_, width_, first_, taken_;
  std::vector<Vec<T>> columns_;
};

// Where a block of filters lies: its width among all, its first filter among those of the width and among all.
struct Place {
  int64_t width, first, column;
};

template <typename T>
std::vector<Place> places_of(at::TensorList weights) {
  std::vector<Place> places;
  int64_t column = 0;
  for (size_t width = 0; width < weights.size(); ++width) {
    for (int64_t first = 0; first < weights[width].size(0); first += kFilters<T>) {
      places.push_back({int64_t(width), first, column + first});
    }
    column += weights[width].size(0);
  }
  return places;
}

// Calls run(number) for all numbers, dealt out to the threads in turn: wide filters take longer, and lie together.
template <typename F>
void deal_out(int64_t count, const F& run) {
  const int64_t num_threads = at::get_num_threads();
  at::parallel_for(0, num_threads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t thread = begin; thread < end; ++thread) {
      for (int64_t number = thread; number < count; number += num_threads) {
        run(number);
      }
    }
  });
}

// Maxima of filters of all widths, (N, F), their bias added, and the window that wins each, (N, F), where `keeps`.
//
// char_ids: (N, C), C at most 256. embedding: (V, D). filters: for each width the weight (filters, D, width), and behind
// all of them each bias.
std::tuple<Tensor, Tensor> filter_maxima(
    const Tensor& char_ids, int64_t padding, const Tensor& embedding, at::TensorList filters, bool keeps) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const at::TensorList weights = filters.slice(0, filters.size() / 2), biases = filters.slice(filters.size() / 2);
  const Words words = read_words(char_ids, padding, embedding.size(0), weights);
  int64_t num_filters = 0;
  for (const Tensor& bias : biases) {
    num_filters += bias.size(0);
  }
  const Tensor maxima = at::empty({words.count, num_filters}, embedding.options());
  const Tensor winners = at::empty({keeps ? words.count : 0, num_filters}, char_ids.options().dtype(at::kByte));
  AT_DISPATCH_FLOATING_TYPES(embedding.scalar_type(), "filter_maxima", [&] {
    const std::vector<Place> places = places_of<scalar_t>(weights);
    deal_out(places.size(), [&](int64_t number) {
      const Place& place = places[number];
      FilterBlock<scalar_t>(words, embedding, weights[place.width], place.first)
          .forward(biases[place.width], maxima, winners, place.column);
    });
  });
  return {maxima, winners};
}

// The gradients of the embedding, and of each of the filters, from that of `filter_maxima`, (N, F).
std::vector<Tensor> filter_maxima_backward(
    const Tensor& gradient, const Tensor& winners, const Tensor& char_ids, int64_t padding, const Tensor& embedding,
    at::TensorList filters) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  const at::TensorList weights = filters.slice(0, filters.size() / 2);
  const Words words = read_words(char_ids, padding, embedding.size(0), weights);
  std::vector<Tensor> gradients = {at::zeros_like(embedding)};
  for (const Tensor& tensor : filters) {
    gradients.push_back(at::zeros_like(tensor));
  }
  AT_DISPATCH_FLOATING_TYPES(embedding.scalar_type(), "filter_maxima_backward", [&] {
    const std::vector<Place> places = places_of<scalar_t>(weights);
    const int64_t size = embedding.size(1), share = words.occurring.size() * size;
    std::vector<scalar_t> shares(places.size() * share);
    deal_out(places.size(), [&](int64_t number) {
      const Place& place = places[number];
      const Tensor &weight = gradients[1 + place.width], &bias = gradients[1 + weights.size() + place.width];
      FilterBlock<scalar_t>(words, embedding, weights[place.width], place.first)
          .backward(gradient, winners, place.column, weight, bias, shares.data() + number * share);
    });
    for (size_t index = 0; index < shares.size(); ++index) {
      row_of<scalar_t>(gradients[0], words.occurring[index % share / size])[index % size] += shares[index];
    }
  });
  return gradients;
}

} // namespace
