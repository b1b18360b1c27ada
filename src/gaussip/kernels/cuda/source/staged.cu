constexpr int UNITS = (K + COMPONENTS - 1) / COMPONENTS * PIECES;  // in all; GROUP of them in a block
constexpr int SLICES = WARPS / GROUP;                              // warps with the same unit share the rows
constexpr int WORK_BYTES = (STAGES * LINES + HELD) * THREADS * 16;
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
    const int first_held = GROUPS == 1 ? 0 : blockIdx.y * GROUP / PIECES * COMPONENTS;  // first of the block's HELD
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
                if (k >= first_held && k < first_held + HELD) mine[(k - first_held) * THREADS] = pack;
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
            for (int r = 0; r < LANE; ++r) scale[r] = count_row(tally, chunk, r, row, last, top[r], norm[r]);
#pragma unroll 1
            for (int k = 0; k < (HELD < K - first_held ? HELD : K - first_held); ++k) {
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
            accumulate_piece<0>(piece, acc, chunk, shares + (component - first_held) * THREADS, slot, components);
        if (STAGES > 1) now = 1 - now;
    }
    copies_wait<0>();
    __syncthreads();  // the memory of rows and responsibilities is free for the sums

    real* const scratch = reinterpret_cast<real*>(stage);
    real* const totals = scratch + WARPS * GATHER * GATHER_STRIDE;
    real* const log_likelihoods = totals + WARPS * UNIT;
    add_lanes(acc, scratch + warp * GATHER * GATHER_STRIDE, [&](int a, real sum) { totals[warp * UNIT + a] = sum; });
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
        for (int s = 0; s < SLICES; ++s) sum += totals[(s * GROUP + warp) * UNIT + a];
        partial[((long long)blockIdx.x * K + component + a / PIECE) * F + feature] = sum;
    }
}
