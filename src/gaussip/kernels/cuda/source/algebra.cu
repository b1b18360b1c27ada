// What is done before and after the pass over the rows, and the check of a theta.

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
