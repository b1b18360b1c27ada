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
            real top = share[0][r], norm = 0;
#pragma unroll
            for (int k = 1; k < K; ++k) top = share[k][r] > top ? share[k][r] : top;
#pragma unroll
            for (int k = 0; k < K; ++k) {
                share[k][r] = K == 1 ? 1 + (share[k][r] - top) : exp2_below(share[k][r] - top);
                norm += share[k][r];
            }
            const real scale = count_row(tally, chunk, r, row, last, top, norm);
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
