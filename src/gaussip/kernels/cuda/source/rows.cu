// What both kernels `hot` do: read rows, take densities and their softmax, and add across the lanes.

constexpr int THREADS = 32 * WARPS;
constexpr int CHUNK = THREADS * LANE;         // rows a block takes at a time: LANE for each thread
constexpr int TILE = 32 * LANE;               // rows of a tile
constexpr int LINES = P + WEIGHTED;           // arrays of a chunk: features, then row weights
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

// Adds row r of a thread's pack to its tally; returns what turns the exponentials into responsibilities times the
// row's weight, zero for a row beyond the task's last. The chunk begins at `row`.
__device__ __forceinline__ real count_row(Tally& tally, const Pack* chunk, int r, int row, int last, real top, real norm)
{
    const bool inside = row + (int)threadIdx.x * LANE + r < last;
    real weight = 1;
#if WEIGHTED
    weight = chunk[P * THREADS + threadIdx.x].get(r);
#endif
    tally.add(top, norm, inside ? weight : real(0), inside);
    return inside ? weight * inverse(norm) : real(0);
}

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
