// The hot function of gaussip on a CUDA device: see gaussip/moments.py for what it computes.
//
// Compiled at run time by gaussip/kernels/nvrtc.py, once for each shape: features.cu comes first, then algebra.cu
// (kernels `coefficients`, `finish` and `healthy`), or rows.cu and one of the two kernels `hot`: fused.cu (one warp per
// task, a thread holds the sums of all components) or staged.cu (several warps per task, the sums are spread over the
// warps). Macros, all from gaussip/kernels/cuda.py:
//   P, K        number of features and of components
//   REAL        double or float, the type of every array
//   and for `hot`: WEIGHTED (0 or 1), STAGES (chunks of rows in shared memory), WARPS of a block, BLOCKS of a
//   multiprocessor, UNIT (sums a thread holds); for staged.cu also, see there, COMPONENTS, PIECES, PIECE, GROUP, GROUPS,
//   OWN and SHARED (bytes).
//
// Rows lie in tiles: 64 rows in float64, 128 in float32, feature by feature, so that each lane of a warp copies one
// 16-byte pack of each feature. With y = (1, z) the features (1, z, vech(zz')) are the upper triangle of yy' row by
// row; feature (i, j) below means y_i * y_j. Sums over rows are taken in an order that depends on the layout alone:
// no atomics, so results are the same in every run.

typedef REAL real;

constexpr int F = (P + 1) * (P + 2) / 2;

__host__ __device__ constexpr int triangle_row(int i) { return i * (P + 1) - i * (i - 1) / 2; }  // of (i, i)

// The pair (i, j) of a feature.
__device__ __forceinline__ void pair_of(int feature, int& i, int& j)
{
    i = 0;
    int rest = feature;
    while (rest >= P + 1 - i) {
        rest -= P + 1 - i;
        ++i;
    }
    j = i + rest;
}

// Coefficients are kept in bits and in the order in which `log2_densities` uses them: the constant, then for each
// z_i its factor b_i and the factors c_ij of z_i z_j for j >= i; padded to whole packs of 16 bytes.
constexpr int LANE = 16 / sizeof(real);        // rows, or coefficients, in one pack
constexpr int STRIDE = (F + LANE - 1) / LANE;  // packs of one component's coefficients
constexpr int WIDTH = STRIDE * LANE;

__device__ __forceinline__ int place_of(int i, int j)
{
    const int line = i == 0 ? j : i;
    const int start = 1 + (line - 1) * (P + 2) - line * (line - 1) / 2;
    return line == 0 ? 0 : (i == 0 ? start : start + 1 + j - i);
}

template <typename T>
__device__ __forceinline__ bool finite(T x)
{
    return x - x == T(0);
}
