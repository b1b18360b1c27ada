// The hot function of gaussip on a CUDA device: see gaussip/moments.py for what it computes.
//
// Compiled at run time by gaussip/kernels/nvrtc.py, once for each shape. Macros, all from gaussip/kernels/cuda.py:
//   P, K        number of features and of components
//   REAL        double or float, the type of every array
//   PART        SMALL: kernels `coefficients`, `finish` and `healthy`;
//               FUSED: kernel `hot`, one warp per task, a thread holds the sums of all components;
//               STAGED: kernel `hot`, several warps per task, the sums are spread over the warps
//   and for `hot`: WEIGHTED (0 or 1), STAGES (chunks of rows in shared memory), WARPS of a block, BLOCKS of a
//   multiprocessor; for STAGED also, see there, COMPONENTS, PIECES, PIECE, GROUP, GROUPS, OWN and SHARED (bytes).
//
// Rows lie in tiles: 64 rows in float64, 128 in float32, feature by feature, so that each lane of a warp copies one
// 16-byte pack of each feature. With y = (1, z) the features (1, z, vech(zz')) are the upper triangle of yy' row by
// row; feature (i, j) below means y_i * y_j. Sums over rows are taken in an order that depends on the layout alone:
// no atomics, so results are the same in every run.

typedef REAL real;

#define SMALL 0
#define FUSED 1
#define STAGED 2

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

#if PART == SMALL

#if P <= 8
#define UNROLL _Pragma("unroll")
#else  // the matrix no longer fits the registers, and unrolled code would be huge
#define UNROLL _Pragma("unroll 1")
#endif

constexpr int TRIANGLE = P * (P + 1) / 2;
constexpr double BITS = 1.44269504088896340736;  // in a nat
#define NOT_A_NUMBER __longlong_as_double(0x7ff8000000000000LL)

__device__ __forceinline__ int lower(int i, int j) { return i * (i + 1) / 2 + j; }

// Cholesky factor of a covariance, lower triangle row by row, with the *inverse* of its diagonal on the
// diagonal. False where the matrix is not positive definite or not finite.
__device__ __forceinline__ bool factorise(const real* covariance, double (&L)[TRIANGLE])
{
    UNROLL for (int i = 0; i < P; ++i) {
        UNROLL for (int j = 0; j <= i; ++j) L[lower(i, j)] = covariance[i * P + j];
    }
    bool good = true;
    UNROLL for (int j = 0; j < P; ++j) {
        double pivot = L[lower(j, j)];
        UNROLL for (int m = 0; m < j; ++m) pivot -= L[lower(j, m)] * L[lower(j, m)];
        good = good && pivot > 0 && finite(pivot);
        const double inverse = rsqrt(pivot);
        L[lower(j, j)] = inverse;
        UNROLL for (int i = j + 1; i < P; ++i) {
            double left = L[lower(i, j)];
            UNROLL for (int m = 0; m < j; ++m) left -= L[lower(i, m)] * L[lower(j, m)];
            L[lower(i, j)] = left * inverse;
        }
    }
    return good;
}

// One thread per site and component: C with log2(alpha_k phi_k(x)) = C_k . features of x - centre, all NaN where
// the covariance is not positive definite, the weight not positive, or anything not finite.
extern "C" __global__ void __launch_bounds__(64)
coefficients(const real* __restrict__ weights, const real* __restrict__ means,
             const real* __restrict__ covariances, const real* __restrict__ centres,
             real* __restrict__ C, long long count)
{
    const long long n = blockIdx.x * 64LL + threadIdx.x;
    if (n >= count) return;
    const long long site = n / K;
    double T[TRIANGLE];
    const double weight = weights[n];
    bool good = factorise(covariances + n * P * P, T) && weight > 0;
    double mantissas = 1;  // the inverse factor's determinant is mantissas * 2^exponents: one logarithm is enough
    int exponents = 0;
    UNROLL for (int i = 0; i < P; ++i) {  // the inverse factor takes the factor's place, row by row
        const int high = __double2hiint(T[lower(i, i)]);
        exponents += (high >> 20) - 1023;
        mantissas *= __hiloint2double((high & 0xfffff) | 0x3ff00000, __double2loint(T[lower(i, i)]));
        UNROLL for (int j = 0; j < i; ++j) {
            double sum = 0;
            UNROLL for (int m = j; m < i; ++m) sum += T[lower(i, m)] * T[lower(m, j)];
            T[lower(i, j)] = -T[lower(i, i)] * sum;
        }
    }
    double apart[P], linear[P], square = 0;
    UNROLL for (int i = 0; i < P; ++i) {
        apart[i] = double(means[n * P + i]) - double(centres[site * P + i]);
        linear[i] = 0;
    }
    UNROLL for (int i = 0; i < P; ++i) {
        double white = 0;
        UNROLL for (int j = 0; j <= i; ++j) white += T[lower(i, j)] * apart[j];
        UNROLL for (int j = 0; j <= i; ++j) linear[j] += T[lower(i, j)] * white;
        square += white * white;
    }
    const double half_log2_2pi = 1.32574806473616180;
    const double constant = log2(weight * mantissas) + exponents - P * half_log2_2pi - 0.5 * BITS * square;
    good = good && finite(constant);
    const double unit = good ? BITS : NOT_A_NUMBER;
    real* const out = C + n * WIDTH;
    out[0] = good ? constant : NOT_A_NUMBER;
    UNROLL for (int i = 0; i < P; ++i) {
        out[place_of(0, i + 1)] = unit * linear[i];
        UNROLL for (int j = i; j < P; ++j) {
            double precision = 0;
            UNROLL for (int m = j; m < P; ++m) precision += T[lower(m, i)] * T[lower(m, j)];
            out[place_of(i + 1, j + 1)] = unit * (precision * (i == j ? -0.5 : -1.0));
        }
    }
    for (int a = F; a < WIDTH; ++a) out[a] = 0;
}

// Threads (feature, slice of the tasks, component): adds a site's partial sums in order, adds the labelled
// sums, and turns sums about the centre into (S0, S1, vech S2 about the means).
extern "C" __global__ void
finish(const real* __restrict__ partial, const real* __restrict__ partial_log_likelihood,
       const int* __restrict__ task_offsets, const real* __restrict__ C, const real* __restrict__ labelled,
       const real* __restrict__ centres, const real* __restrict__ means, double reg_covar,
       real* __restrict__ sums, real* __restrict__ log_likelihoods)
{
    __shared__ double parts[1024];
    __shared__ double warps[32];
    const long long site = blockIdx.x;
    const int feature = threadIdx.x, slice = threadIdx.y, k = blockIdx.y * blockDim.z + threadIdx.z;
    const int threads = blockDim.x * blockDim.y * blockDim.z;
    const int me = (threadIdx.z * blockDim.y + slice) * blockDim.x + feature;
    const bool mine = feature < F && k < K;
    const long long place = (site * K + k) * F + feature;
    const int begin = task_offsets[site], end = task_offsets[site + 1];

    bool bad = false;  // one component that is none spoils the whole site
    for (int c = me; c < K; c += threads) bad = bad || !finite(C[(site * K + c) * WIDTH]);
    if (__syncthreads_or(bad)) {
        if (mine && slice == 0) sums[place] = NOT_A_NUMBER;
        if (blockIdx.y == 0 && me == 0) log_likelihoods[site] = NOT_A_NUMBER;
        return;
    }

    double total = 0;
    if (mine) {
#pragma unroll 16
        for (int t = begin + slice; t < end; t += blockDim.y)
            total += double(partial[((long long)t * K + k) * F + feature]);
    }
    parts[me] = total;
    __syncthreads();
    if (mine && slice == 0) {
        for (int s = 1; s < blockDim.y; ++s) total += parts[me + s * blockDim.x];
        if (labelled != nullptr) total += double(labelled[place]);
        parts[me] = total;
    }
    double log_likelihood = 0;
    if (blockIdx.y == 0) {
#pragma unroll 4
        for (int t = begin + me; t < end; t += threads) log_likelihood += double(partial_log_likelihood[t]);
        if (labelled != nullptr)
            for (int a = me; a < K * F; a += threads) {
                int i, j;
                pair_of(a % F, i, j);
                const double c = C[(site * K + a / F) * WIDTH + place_of(i, j)];
                log_likelihood += c * double(labelled[site * K * F + a]) / BITS;
            }
        for (int step = 16; step > 0; step /= 2)
            log_likelihood += __shfl_xor_sync(0xffffffffu, log_likelihood, step);
        if (me % 32 == 0) warps[me / 32] = log_likelihood;
    }
    __syncthreads();
    if (blockIdx.y == 0 && me == 0) {
        for (int w = 1; w < threads / 32; ++w) log_likelihood += warps[w];
        log_likelihoods[site] = log_likelihood;
    }
    if (!mine || slice != 0) return;

    const double* const sum = parts + (me - feature);
    int i, j;
    pair_of(feature, i, j);
    double out = sum[feature];
    if (i == 0 && j > 0) {
        out += sum[0] * double(centres[site * P + j - 1]);
    } else if (i > 0) {
        const real* const mean = means + (site * K + k) * P;
        const double apart_i = double(mean[i - 1]) - double(centres[site * P + i - 1]);
        const double apart_j = double(mean[j - 1]) - double(centres[site * P + j - 1]);
        out += sum[0] * (apart_i * apart_j) - (apart_i * sum[j] + apart_j * sum[i]);
        if (i == j) out += reg_covar * sum[0];
    }
    sums[place] = out;
}

// One thread per site and component; a block holds whole sites.
extern "C" __global__ void
healthy(const real* __restrict__ weights, const real* __restrict__ means, const real* __restrict__ covariances,
        double least, bool* __restrict__ out, long long sites)
{
    __shared__ int good[1024];
    const int mine = threadIdx.x / K, here = blockDim.x / K;
    const long long site = blockIdx.x * (long long)here + mine;
    const long long n = site * K + threadIdx.x % K;
    if (site < sites) {
        double L[TRIANGLE];
        const double weight = weights[n];
        bool fine = factorise(covariances + n * P * P, L) && weight > least && finite(weight);
        double zero = 0;  // stays zero as long as everything is finite
        UNROLL for (int i = 0; i < P; ++i) {
            zero += 0.0 * double(means[n * P + i]);
            UNROLL for (int j = 0; j < P; ++j) zero += 0.0 * double(covariances[(n * P + i) * P + j]);
        }
        good[threadIdx.x] = fine && zero == 0;
    }
    __syncthreads();
    if (site < sites && threadIdx.x % K == 0) {
        int all = 1;
        for (int k = 0; k < K; ++k) all &= good[mine * K + k];
        out[site] = all != 0;
    }
}

#else  // kernel `hot`

constexpr int THREADS = 32 * WARPS;
constexpr int CHUNK = THREADS * LANE;         // rows a block takes at a time: LANE for each thread
constexpr int TILE = 32 * LANE;               // rows of a tile
constexpr int LINES = P + WEIGHTED;           // arrays of a chunk: features, then row weights
#if PART == FUSED
constexpr int UNIT = K * F;                   // sums a thread holds: all
#else
constexpr int UNIT = COMPONENTS * PIECE;      // sums a thread holds: a piece of the features, of some components
#endif
constexpr int GATHER = UNIT < 32 ? UNIT : 32; // of them are added across the lanes at a time
constexpr int GATHER_STRIDE = 33;             // no two lanes of a half-warp in one bank

// One 16-byte access. Its rows are members and no array: an array would be put into local memory.
template <typename T>
struct alignas(16) PackOf;

template <>
struct alignas(16) PackOf<double> {
    double x, y;
    __device__ __forceinline__ double get(int r) const { return r == 0 ? x : y; }
    __device__ __forceinline__ void set(int r, double value) { (r == 0 ? x : y) = value; }
};

template <>
struct alignas(16) PackOf<float> {
    float x, y, z, w;
    __device__ __forceinline__ float get(int r) const { return r == 0 ? x : r == 1 ? y : r == 2 ? z : w; }
    __device__ __forceinline__ void set(int r, float value) { (r == 0 ? x : r == 1 ? y : r == 2 ? z : w) = value; }
};

typedef PackOf<real> Pack;

// --- copies from device memory to shared memory that do not pass through registers

__device__ __forceinline__ void copy_pack(Pack* to, const real* from, bool wanted)
{
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted cp.async.cg.shared.global [%0], [%1], 16; }"
                 ::"r"(at), "l"(from), "r"((int)wanted) : "memory");
}

__device__ __forceinline__ void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Starts copying this thread's pack of the chunk whose first row is `row`, if there are such rows.
__device__ __forceinline__ void fetch(Pack* stage, const real* z, const real* weights, int row, int last)
{
    const int lane = WARPS == 1 ? threadIdx.x : threadIdx.x % 32, tile = row + (threadIdx.x - lane) * LANE;
    const real* const from = z + (long long)tile * P + lane * LANE;
#pragma unroll
    for (int i = 0; i < P; ++i) copy_pack(stage + i * THREADS + threadIdx.x, from + i * TILE, tile < last);
#if WEIGHTED
    copy_pack(stage + P * THREADS + threadIdx.x, weights + tile + lane * LANE, tile < last);
#endif
    copies_end();
}

// --- arithmetic

// 2^r on [-1/2, 1/2] is 1 + r * (EXP2[0] + EXP2[1] r + ...) to 4e-16 (own minimax fit). In constant memory, so that
// multiply-adds take them as operands instead of holding them in registers.
constexpr int DEGREE = 10;
__constant__ double EXP2[DEGREE] = {
    0x1.62e42fefa3a3cp-1,  0x1.ebfbdff82c5a0p-3,  0x1.c6b08d7035b6dp-5,  0x1.3b2ab6fba0353p-7,
    0x1.5d87feaa666dbp-10, 0x1.4309130f67eefp-13, 0x1.ffcb31905f7d8p-17, 0x1.62bfc48c770f9p-20,
    0x1.b6945e6b566c9p-24, 0x1.e6228bff026d1p-28};

// 2^x for x <= 0, zero below 2^-1000.
__device__ __forceinline__ double exp2_below(double x)
{
    const double magic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer, in the low word
    const double shifted = x + magic;
    const double r = x - (shifted - magic);
    double value = EXP2[DEGREE - 1];
#pragma unroll
    for (int m = DEGREE - 2; m >= 0; --m) value = fma(value, r, EXP2[m]);
    value = fma(value, r, 1.0);
    const bool tiny = (unsigned)__double2hiint(x) > 0xC08F4000u;  // x < -1000
    const int high = __double2hiint(value) + (__double2loint(shifted) << 20);
    return __hiloint2double(tiny ? 0 : high, tiny ? 0 : __double2loint(value));
}

__device__ __forceinline__ float exp2_below(float x)
{
    float value;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
    return value;
}

// 1 / x for x in [1, 2K]: the hardware's first 20 bits and a step of third order.
__device__ __forceinline__ double inverse(double x)
{
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    const double e = fma(-x, y, 1.0);
    return fma(y, fma(e, e, e), y);
}

__device__ __forceinline__ float inverse(float x) { return __frcp_rn(x); }

// log2(x) for x in [1, K] is e + 2 atanh(s) / log(2) with x = m * 2^e, m in [sqrt(1/2), sqrt(2)], and
// s = (m - 1) / (m + 1); the series in s^2 to 5e-16 (own minimax fit). The library's logarithm has branches, which
// keep the compiler from overlapping rows.
__constant__ double LOG2[7] = {0x1.71547652b82ffp+1, 0x1.ec709dc39c9a6p-1, 0x1.2776c516af89ap-1, 0x1.a617566fe276bp-2,
                               0x1.484fae040b013p-2, 0x1.0bb783bbc6a1cp-2, 0x1.f18a04000ee4cp-3};

__device__ __forceinline__ double log2_norm(double x)
{
    const int high = __double2hiint(x);
    const int exponent = ((high + 0x95f62) >> 20) - 1023;  // rounds up from sqrt(2)
    const double m = __hiloint2double(high - (exponent << 20), __double2loint(x));
    const double s = (m - 1) * inverse(m + 1), q = s * s;
    double value = LOG2[6];
#pragma unroll
    for (int a = 5; a >= 0; --a) value = fma(value, q, LOG2[a]);
    return fma(value, s, __hiloint2double(0x43380000, exponent) - 6755399441055744.0);
}

__device__ __forceinline__ float log2_norm(float x) { return __log2f(x); }

// Reads one component's coefficients in the order `log2_densities` uses them.
struct Cursor {
    const Pack* from;
    Pack held;
    int at;
    __device__ __forceinline__ real next()
    {
        if (at % LANE == 0) held = from[at / LANE];
        return held.get(at++ % LANE);
    }
};

// Binary logarithms of a component's densities at some rows, nested: c + sum_i z_i (b_i + sum_{j >= i} c_ij z_j).
__device__ __forceinline__ void log2_densities(const Pack* component, const real (&z)[P][LANE], real (&d)[LANE])
{
    Cursor cursor{component, {}, 0};
    const real constant = cursor.next();
#pragma unroll
    for (int r = 0; r < LANE; ++r) d[r] = constant;
#pragma unroll
    for (int i = 0; i < P; ++i) {
        real inner[LANE];
        const real b = cursor.next();
#pragma unroll
        for (int r = 0; r < LANE; ++r) inner[r] = b;
#pragma unroll
        for (int j = i; j < P; ++j) {
            const real c = cursor.next();
#pragma unroll
            for (int r = 0; r < LANE; ++r) inner[r] = fma(c, z[j][r], inner[r]);
        }
#pragma unroll
        for (int r = 0; r < LANE; ++r) d[r] = fma(inner[r], z[i][r], d[r]);
    }
}

// A thread's log-likelihood so far, in bits. Without row weights the norms of the softmax, each between 1 and K,
// are multiplied and their logarithm is taken once at the end: a thread sees few enough rows of a task.
struct Tally {
    real bits, product;
    __device__ __forceinline__ void add(real top, real norm, real weight, bool inside)
    {
        if (WEIGHTED) {
            bits += weight * (top + log2_norm(norm));
        } else if (sizeof(real) == 4) {  // a product would overflow, and the hardware has this logarithm
            bits += inside ? top + log2_norm(norm) : real(0);
        } else {
            bits += inside ? top : real(0);
            product *= inside ? norm : real(1);
        }
    }
    __device__ __forceinline__ real log_likelihood() const
    {
        return real(0.69314718055994530942) * (bits + log2(product));
    }
};

// acc[a - LOW] += weight * feature a, for the features LOW <= a < HIGH of row r.
template <int LOW, int HIGH, int N>
__device__ __forceinline__ void accumulate(real* acc, const real (&z)[P][N], int r, real weight)
{
#pragma unroll
    for (int i = 0; i <= P; ++i) {
        if (triangle_row(i + 1) <= LOW || triangle_row(i) >= HIGH) continue;
        const real left = i == 0 ? weight : weight * z[i > 0 ? i - 1 : 0][r];
#pragma unroll
        for (int j = i; j <= P; ++j) {
            const int a = triangle_row(i) + j - i;
            if (a < LOW || a >= HIGH) continue;
            acc[a - LOW] = j == 0 ? acc[a - LOW] + left : fma(left, z[j > 0 ? j - 1 : 0][r], acc[a - LOW]);
        }
    }
}

// --- what a block does before and after its rows

// Starts copying a site's coefficients.
__device__ __forceinline__ void fetch_coefficients(Pack* to, const real* C)
{
    for (int a = threadIdx.x; a < K * STRIDE; a += THREADS) copy_pack(to + a, C + a * LANE, true);
}

// Adds each of a thread's sums over the lanes of its warp, GATHER of them at a time; write(index, total) gets them.
template <int N, typename Write>
__device__ __forceinline__ void add_lanes(const real (&acc)[N], real* scratch, const Write& write)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int base = 0; base < N; base += GATHER) {
        __syncwarp();
#pragma unroll
        for (int a = 0; a < GATHER; ++a)
            if (base + a < N) scratch[a * GATHER_STRIDE + lane] = acc[base + a < N ? base + a : 0];
        __syncwarp();
        if (lane < GATHER && base + lane < N) {
            const real* const from = scratch + lane * GATHER_STRIDE;
            real total[4] = {0, 0, 0, 0};
#pragma unroll
            for (int s = 0; s < 32; ++s) total[s % 4] += from[s];
            write(base + lane, (total[0] + total[1]) + (total[2] + total[3]));
        }
    }
}

__device__ __forceinline__ real add_lanes(real value)
{
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

#if PART == FUSED

static_assert(WARPS == 1, "one warp per task");
constexpr int STAGE_BYTES = STAGES * LINES * THREADS * 16;
constexpr int GATHER_BYTES = GATHER * GATHER_STRIDE * sizeof(real);

// One warp per task. A thread takes LANE rows at a time through densities, softmax and sums, and holds the sums
// of all components in registers; nothing is exchanged between threads until the task's end. Coefficients come
// from shared memory, the same for all lanes; rows through a queue of STAGES chunks there.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
hot(const real* __restrict__ z, const real* __restrict__ weights, const int* __restrict__ tasks,
    const real* __restrict__ C, real* __restrict__ partial, real* __restrict__ partial_log_likelihood)
{
    __shared__ Pack coefficients[K * STRIDE];
    __shared__ __align__(16) unsigned char memory[STAGE_BYTES > GATHER_BYTES ? STAGE_BYTES : GATHER_BYTES];
    Pack* const stage = reinterpret_cast<Pack*>(memory);
    const int site = tasks[3 * blockIdx.x], first = tasks[3 * blockIdx.x + 1], last = tasks[3 * blockIdx.x + 2];

    fetch_coefficients(coefficients, C + (long long)site * K * WIDTH);  // NaN in them is left to `finish`
#pragma unroll
    for (int c = 0; c < STAGES - 1; ++c) fetch(stage + c * LINES * THREADS, z, weights, first + c * CHUNK, last);
    copies_wait<STAGES - 2>();  // the coefficients came with the first chunk
    __syncwarp();

    real acc[UNIT];
#pragma unroll
    for (int a = 0; a < UNIT; ++a) acc[a] = 0;
    Tally tally{0, 1};
    int now = 0, next = STAGES - 1;
    for (int row = first; row < last; row += CHUNK) {
        fetch(stage + next * LINES * THREADS, z, weights, row + (STAGES - 1) * CHUNK, last);
        copies_wait<STAGES - 1>();  // a thread reads only what it copied itself: no barrier
        const Pack* const chunk = stage + now * LINES * THREADS;
        real rows[P][LANE];
#pragma unroll
        for (int i = 0; i < P; ++i) {
            const Pack pack = chunk[i * THREADS + threadIdx.x];
#pragma unroll
            for (int r = 0; r < LANE; ++r) rows[i][r] = pack.get(r);
        }
        real share[K][LANE];
#pragma unroll
        for (int k = 0; k < K; ++k) log2_densities(coefficients + k * STRIDE, rows, share[k]);
#pragma unroll
        for (int r = 0; r < LANE; ++r) {
            const bool inside = row + (int)threadIdx.x * LANE + r < last;
            real weight = 1;
#if WEIGHTED
            weight = chunk[P * THREADS + threadIdx.x].get(r);
#endif
            real top = share[0][r], norm = 0;
#pragma unroll
            for (int k = 1; k < K; ++k) top = share[k][r] > top ? share[k][r] : top;
#pragma unroll
            for (int k = 0; k < K; ++k) {
                share[k][r] = K == 1 ? 1 + (share[k][r] - top) : exp2_below(share[k][r] - top);
                norm += share[k][r];
            }
            tally.add(top, norm, inside ? weight : real(0), inside);
            const real scale = inside ? weight * inverse(norm) : real(0);
#pragma unroll
            for (int k = 0; k < K; ++k) share[k][r] *= scale;
        }
#pragma unroll
        for (int r = 0; r < LANE; ++r) {
#pragma unroll
            for (int k = 0; k < K; ++k) accumulate<0, F>(acc + k * F, rows, r, share[k][r]);
        }
        now = now + 1 == STAGES ? 0 : now + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    // No copy is under way any more: the stages are free for the sums.
    const real log_likelihood = add_lanes(tally.log_likelihood());
    if (threadIdx.x == 0) partial_log_likelihood[blockIdx.x] = log_likelihood;
    real* const out = partial + (long long)blockIdx.x * K * F;
    add_lanes(acc, reinterpret_cast<real*>(memory), [&](int a, real sum) { out[a] = sum; });
}

#else  // STAGED

constexpr int UNITS = (K + COMPONENTS - 1) / COMPONENTS * PIECES;  // in all; GROUP of them in a block
constexpr int SLICES = WARPS / GROUP;                              // warps with the same unit share the rows
constexpr int WORK_BYTES = (STAGES * LINES + OWN) * THREADS * 16;
constexpr int END_BYTES = WARPS * (GATHER * GATHER_STRIDE + UNIT + 1) * sizeof(real);
static_assert(WARPS == GROUP * SLICES, "warps of a block");
static_assert(K * STRIDE * 16 + (WORK_BYTES > END_BYTES ? WORK_BYTES : END_BYTES) <= SHARED, "shared memory");
static_assert(PIECES * PIECE >= F && GROUP * GROUPS >= UNITS, "every sum has a warp");

// Adds a pack's rows to the warp's sums. The piece is a constant inside, for the sums live in registers.
template <int Q>
__device__ __forceinline__ void accumulate_piece(int piece, real (&acc)[UNIT], const Pack* chunk, const Pack* shares,
                                                 int slot, int components)
{
    constexpr int LOW = Q * PIECE, HIGH = (Q + 1) * PIECE < F ? (Q + 1) * PIECE : F;
    if (piece == Q) {
        real rows[P][LANE];
#pragma unroll
        for (int i = 0; i < P; ++i) {
            const Pack pack = chunk[i * THREADS + slot];
#pragma unroll
            for (int r = 0; r < LANE; ++r) rows[i][r] = pack.get(r);
        }
#pragma unroll
        for (int c = 0; c < COMPONENTS; ++c) {
            if (c >= components) break;
            const Pack share = shares[c * THREADS + slot];
#pragma unroll
            for (int r = 0; r < LANE; ++r) accumulate<LOW, HIGH>(acc + c * PIECE, rows, r, share.get(r));
        }
    } else if constexpr (Q + 1 < PIECES) {
        accumulate_piece<Q + 1>(piece, acc, chunk, shares, slot, components);
    }
}

// Several warps per task. First every thread takes LANE rows through densities and softmax and leaves their
// responsibilities in shared memory; then every warp adds its own piece of the sums over all rows of the chunk.
// Where one block cannot hold all sums, GROUPS blocks do the first step alike and share the second.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
hot(const real* __restrict__ z, const real* __restrict__ weights, const int* __restrict__ tasks,
    const real* __restrict__ C, real* __restrict__ partial, real* __restrict__ partial_log_likelihood)
{
    extern __shared__ __align__(16) unsigned char memory[];
    Pack* const coefficients = reinterpret_cast<Pack*>(memory);
    Pack* const stage = coefficients + K * STRIDE;
    Pack* const shares = stage + STAGES * LINES * THREADS;
    const int site = tasks[3 * blockIdx.x], first = tasks[3 * blockIdx.x + 1], last = tasks[3 * blockIdx.x + 2];

    fetch_coefficients(coefficients, C + (long long)site * K * WIDTH);  // NaN in them is left to `finish`
    copies_end();
    if (STAGES > 1) fetch(stage, z, weights, first, last);
    copies_wait<STAGES - 1>();

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, slice = warp / GROUP;
    const int unit = blockIdx.y * GROUP + warp % GROUP, piece = unit % PIECES;
    const int component = unit / PIECES * COMPONENTS;                            // first of the warp
    const int own = GROUPS == 1 ? 0 : blockIdx.y * GROUP / PIECES * COMPONENTS;  // first of the block's OWN
    const int components = unit < UNITS ? (K - component < COMPONENTS ? K - component : COMPONENTS) : 0;

    real acc[UNIT];
#pragma unroll
    for (int a = 0; a < UNIT; ++a) acc[a] = 0;
    Tally tally{0, 1};
    int now = 0;
    for (int row = first; row < last; row += CHUNK) {
        __syncthreads();  // nobody reads the last chunk's rows and responsibilities any more
        if (STAGES > 1) {
            fetch(stage + (1 - now) * LINES * THREADS, z, weights, row + CHUNK, last);
        } else {
            fetch(stage, z, weights, row, last);
        }
        copies_wait<STAGES - 1>();
        const Pack* const chunk = stage + now * LINES * THREADS;

        if (row + warp * TILE < last) {  // else the warp has no rows
            real rows[P][LANE], top[LANE], norm[LANE], scale[LANE];
            Pack* const mine = shares + threadIdx.x;
#pragma unroll
            for (int i = 0; i < P; ++i) {
                const Pack pack = chunk[i * THREADS + threadIdx.x];
#pragma unroll
                for (int r = 0; r < LANE; ++r) rows[i][r] = pack.get(r);
            }
#pragma unroll 1
            for (int k = 0; k < K; ++k) {
                real d[LANE];
                Pack pack;
                log2_densities(coefficients + k * STRIDE, rows, d);
#pragma unroll
                for (int r = 0; r < LANE; ++r) {
                    const bool higher = k == 0 || d[r] > top[r];
                    if (GROUPS > 1) {  // only some responsibilities are kept: the norm is found on the way
                        if (k == 0) norm[r] = 0;
                        const real apart = k == 0 ? real(0) : (higher ? top[r] - d[r] : d[r] - top[r]);
                        const real ratio = exp2_below(apart);
                        norm[r] = higher ? fma(norm[r], ratio, real(1)) : norm[r] + ratio;
                    }
                    top[r] = higher ? d[r] : top[r];
                    pack.set(r, d[r]);
                }
                if (k >= own && k < own + OWN) mine[(k - own) * THREADS] = pack;
            }
            if (GROUPS == 1) {
#pragma unroll
                for (int r = 0; r < LANE; ++r) norm[r] = 0;
#pragma unroll 1
                for (int k = 0; k < K; ++k) {
                    Pack pack = mine[k * THREADS];
#pragma unroll
                    for (int r = 0; r < LANE; ++r) {
                        const real value = exp2_below(pack.get(r) - top[r]);
                        norm[r] += value;
                        pack.set(r, value);
                    }
                    mine[k * THREADS] = pack;
                }
            }
#pragma unroll
            for (int r = 0; r < LANE; ++r) {
                const bool inside = row + (int)threadIdx.x * LANE + r < last;
                real weight = 1;
#if WEIGHTED
                weight = chunk[P * THREADS + threadIdx.x].get(r);
#endif
                tally.add(top[r], norm[r], inside ? weight : real(0), inside);
                scale[r] = inside ? weight * inverse(norm[r]) : real(0);
            }
#pragma unroll 1
            for (int k = 0; k < (OWN < K - own ? OWN : K - own); ++k) {
                Pack pack = mine[k * THREADS];
#pragma unroll
                for (int r = 0; r < LANE; ++r) {
                    real value = pack.get(r);
                    if (GROUPS > 1) value = exp2_below(value - top[r]);
                    pack.set(r, value * scale[r]);
                }
                mine[k * THREADS] = pack;
            }
        }
        __syncthreads();

        const int left = (last - row + LANE - 1) / LANE, slots = left < THREADS ? left : THREADS;
#pragma unroll 1
        for (int slot = slice * 32 + lane; slot < slots; slot += SLICES * 32)
            accumulate_piece<0>(piece, acc, chunk, shares + (component - own) * THREADS, slot, components);
        if (STAGES > 1) now = 1 - now;
    }
    copies_wait<0>();
    __syncthreads();  // the memory of rows and responsibilities is free for the sums

    real* const scratch = reinterpret_cast<real*>(stage);
    real* const found = scratch + WARPS * GATHER * GATHER_STRIDE;
    real* const log_likelihoods = found + WARPS * UNIT;
    add_lanes(acc, scratch + warp * GATHER * GATHER_STRIDE, [&](int a, real sum) { found[warp * UNIT + a] = sum; });
    const real log_likelihood = add_lanes(tally.log_likelihood());
    if (lane == 0) log_likelihoods[warp] = log_likelihood;
    __syncthreads();
    if (blockIdx.y == 0 && threadIdx.x == 0) {
        real sum = 0;
        for (int w = 0; w < WARPS; ++w) sum += log_likelihoods[w];
        partial_log_likelihood[blockIdx.x] = sum;
    }
    if (slice != 0) return;
    for (int a = lane; a < components * PIECE; a += 32) {
        const int feature = piece * PIECE + a % PIECE;
        if (feature >= F) continue;
        real sum = 0;
        for (int s = 0; s < SLICES; ++s) sum += found[(s * GROUP + warp) * UNIT + a];
        partial[((long long)blockIdx.x * K + component + a / PIECE) * F + feature] = sum;
    }
}

#endif
#endif
