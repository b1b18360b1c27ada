// The small algebra of a round on a CUDA device: what gaussip/kernels/small.py does on the CPU.
//
// Compiled at run time by gaussip/kernels/nvrtc.py for REAL double or float; sizes are arguments. No atomics, sums in
// a fixed order: results are the same in every run.

typedef REAL real;

// Theta of psi rows (alpha, beta', vech(gamma)'): a thread for each of the f entries of each component of each site.
extern "C" __global__ void
to_theta(const real* __restrict__ psi, real* __restrict__ weights, real* __restrict__ means,
         real* __restrict__ covariances, long long components, long long K, long long p, long long f)
{
    const long long n = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (n >= components * f) return;
    const long long c = n / f;
    int e = int(n % f);
    const real alpha = psi[c * f];
    if (e == 0) {
        const long long site = c / K;
        real total = 0;
        for (int k = 0; k < K; ++k) total += psi[(site * K + k) * f];
        weights[c] = alpha / total;
        return;
    }
    const real value = psi[n] / alpha;
    if (e <= p) {
        means[c * p + e - 1] = value;
        return;
    }
    e -= 1 + int(p);
    int i = 0;
    while (e >= p - i) {
        e -= int(p) - i;
        ++i;
    }
    const int j = i + e;
    covariances[(c * p + i) * p + j] = value;
    covariances[(c * p + j) * p + i] = value;
}

// The average over those a site hears, neighbour by neighbour: values and out (R, M, size), heard and weight (slots, M).
extern "C" __global__ void
average(const real* __restrict__ values, const long long* __restrict__ heard, const real* __restrict__ weight,
        real* __restrict__ out, long long total, long long M, long long size, long long slots)
{
    const long long n = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (n >= total) return;
    const long long e = n % size, m = n / size % M, first = n - e - m * size;
    real sum = 0;
    for (int slot = 0; slot < slots; ++slot) {
        const long long q = heard[slot * M + m];
        sum += weight[slot * M + m] * values[first + q * size + e];
    }
    out[n] = sum;
}

// The larger of two numbers; NaN stays.
__device__ __forceinline__ real larger(real a, real b) { return b > a || b != b ? b : a; }

// psi in the start's unit, its largest move, and the sites' distance from their mean; a block for each replicate.
// Threads (32, 8): across the entries of a component, and across the sites.
extern "C" __global__ void
measure(const real* __restrict__ weights, const real* __restrict__ means, const real* __restrict__ covariances,
        const real* __restrict__ shift, const real* __restrict__ factor, const real* __restrict__ last,
        real* __restrict__ now, real* __restrict__ change, real* __restrict__ apart,
        long long M, long long K, long long p, long long f)
{
    __shared__ real sums[8][32], moves[256], squares[256];
    const long long r = blockIdx.x, base = r * M;
    const int lane = threadIdx.x, group = threadIdx.y;
    real most = 0, square = 0;
    for (long long first = 0; first < K * f; first += 32) {
        const long long n = first + lane;
        const bool here = n < K * f;
        const long long k = n / f;
        const int e = int(n % f);
        int i = 0, j = 0;
        if (e > p) {
            int rest = e - 1 - int(p);
            while (rest >= p - i) {
                rest -= int(p) - i;
                ++i;
            }
            j = i + rest;
        }
        real sum = 0;
        for (long long m = group; here && m < M; m += 8) {
            const long long c = (base + m) * K + k;
            const real alpha = weights[c];
            real value = alpha;
            if (e > p) value = alpha * covariances[(c * p + i) * p + j] / factor[r * f + e];
            else if (e > 0) value = (alpha * means[c * p + e - 1] - alpha * shift[r * f + e]) / factor[r * f + e];
            now[c * f + e] = value;
            sum += value;
            const real move = value > last[c * f + e] ? value - last[c * f + e] : last[c * f + e] - value;
            most = larger(most, move);
        }
        __syncthreads();
        sums[group][lane] = sum;
        __syncthreads();
        sum = 0;
        for (int g = 0; g < 8; ++g) sum += sums[g][lane];
        const real mean = sum / M;
        for (long long m = group; here && m < M; m += 8) {
            const real off = now[((base + m) * K + k) * f + e] - mean;
            square += off * off;
        }
    }
    const int thread = group * 32 + lane;
    moves[thread] = most;
    squares[thread] = square;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (thread < half) {
            moves[thread] = larger(moves[thread], moves[thread + half]);
            squares[thread] += squares[thread + half];
        }
    }
    if (thread == 0) {
        change[r] = moves[0];
        apart[r] = sqrt(squares[0] / M);
    }
}
