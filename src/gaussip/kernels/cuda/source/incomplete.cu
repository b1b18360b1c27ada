// Rows of which some cells are missing: a theta for each group of rows, and what their sums become once the missing
// cells are filled in, as in gaussip/kernels/array/incomplete.py. A group's rows can be of A of the K components.

// Of the upper triangle row by row, after S0 and S1.
__device__ __forceinline__ int square_of(int i, int j)
{
    const int low = i < j ? i : j, high = i < j ? j : i;
    return 1 + P + low * P - low * (low - 1) / 2 + high - low;
}

__device__ __forceinline__ long long component_of(const long long* components, const long long* sites, long long n)
{
    return sites[n / A] * K + (components ? components[n] : n % A);
}

// One thread per group, component and feature: a feature that is missing is independent, about the centre.
extern "C" __global__ void __launch_bounds__(128)
narrow(const real* __restrict__ weights, const real* __restrict__ means, const real* __restrict__ covariances,
       const long long* __restrict__ sites, const bool* __restrict__ observed,
       const long long* __restrict__ components, const real* __restrict__ centres,
       real* __restrict__ own_weights, real* __restrict__ own_means, real* __restrict__ own_covariances,
       long long count)
{
    const long long here = blockIdx.x * 128LL + threadIdx.x;
    if (here >= count) return;
    const int i = here % P;
    const long long n = here / P, from = component_of(components, sites, n);
    const bool* const seen = observed + n / A * P;
    if (i == 0) own_weights[n] = weights[from];
    own_means[here] = seen[i] ? means[from * P + i] : centres[n / A * P + i];
    for (int j = 0; j < P; ++j) {
        const real value = covariances[(from * P + i) * P + j];
        own_covariances[here * P + j] = seen[i] && seen[j] ? value : real(i == j);
    }
}

// One thread per group and component: the group's sums with its missing cells filled in.
extern "C" __global__ void __launch_bounds__(64)
fill(const real* __restrict__ means, const real* __restrict__ covariances, const long long* __restrict__ sites,
     const bool* __restrict__ observed, const long long* __restrict__ components, const real* __restrict__ sums,
     real* __restrict__ filled, long long count)
{
    const long long n = blockIdx.x * 64LL + threadIdx.x;
    if (n >= count) return;
    const bool* const seen = observed + n / A * P;
    const real* const in = sums + n * F;
    real* const out = filled + n * F;
    for (int e = 0; e < F; ++e) out[e] = in[e];
    int order[P], first = 0;  // the observed first
    for (int i = 0; i < P; ++i)
        if (seen[i]) order[first++] = i;
    if (first == P) return;
    for (int i = 0, last = first; i < P; ++i)
        if (!seen[i]) order[last++] = i;
    const long long from = component_of(components, sites, n);
    const real *const mean = means + from * P, *const covariance = covariances + from * P * P;

    double root[P][P];  // the Cholesky factor in that order, with the inverse of its diagonal on the diagonal
    for (int a = 0; a < P; ++a) {
        for (int b = 0; b <= a; ++b) {
            double left = covariance[order[a] * P + order[b]];
            for (int m = 0; m < b; ++m) left -= root[a][m] * root[b][m];
            if (b < a) root[a][b] = left * root[b][b];
            else root[a][a] = left > 0 && finite(left) ? 1 / sqrt(left) : NOT_A_NUMBER;
        }
    }
    double slope[P], cross[P][P];
    const double S0 = in[0];
    for (int a = first; a < P; ++a) {
        const int i = order[a];
        double moved = 0;
        for (int b = first - 1; b >= 0; --b) {  // slope L_oo = L_uo
            double left = root[a][b];
            for (int m = b + 1; m < first; ++m) left -= slope[m] * root[m][b];
            slope[b] = left * root[b][b];
            moved += slope[b] * (in[1 + order[b]] - S0 * mean[order[b]]);
        }
        out[1 + i] = S0 * mean[i] + moved;
        for (int b = 0; b < first; ++b) {
            double total = 0;
            for (int m = 0; m < first; ++m) total += slope[m] * in[square_of(order[m], order[b])];
            cross[a][b] = total;
            out[square_of(i, order[b])] = total;
        }
        for (int b = first; b <= a; ++b) {  // those before, times this one's slope
            double total = 0, inner = 0;
            for (int m = 0; m < first; ++m) total += cross[b][m] * slope[m];
            for (int m = first; m < b; ++m) inner += root[a][m] * root[b][m];
            inner += (b < a ? root[a][b] : 1 / root[b][b]) / root[b][b];
            out[square_of(i, order[b])] = total + S0 * inner;
        }
    }
}

// One thread per sum of a site: those of its groups, added in order.
extern "C" __global__ void __launch_bounds__(128)
gather(const real* __restrict__ filled, const real* __restrict__ group_log_likelihoods,
       const bool* __restrict__ observed, const long long* __restrict__ components,
       const long long* __restrict__ offsets, const real* __restrict__ sums_before,
       const real* __restrict__ log_likelihood_before, const real* __restrict__ observed_before,
       real* __restrict__ sums, real* __restrict__ log_likelihood, real* __restrict__ observed_rows)
{
    const int here = blockIdx.y * 128 + threadIdx.x;
    const long long site = blockIdx.x, first = offsets[site], last = offsets[site + 1];
    if (here > K * (F + P)) return;
    if (here == K * (F + P)) {
        double total = log_likelihood_before[site];
#pragma unroll 8
        for (long long g = first; g < last; ++g) total += group_log_likelihoods[g];
        log_likelihood[site] = total;
        return;
    }
    const int k = here / (F + P), e = here % (F + P), i = e - F;
    const long long mine = site * K + k;
    double total = e < F ? sums_before[mine * F + e] : observed_before[mine * P + i];
#pragma unroll 8
    for (long long g = first; g < last; ++g) {
        int a = k;
        if (components) {
            a = A;
            for (int b = 0; b < A; ++b)
                if (components[g * A + b] == k) a = b;
        }
        const bool counts = a < A && (e < F || observed[g * P + i]);
        total += counts ? double(filled[(g * A + a) * F + (e < F ? e : 0)]) : 0.0;
    }
    if (e < F) sums[mine * F + e] = total;
    else observed_rows[mine * P + i] = total;
}
