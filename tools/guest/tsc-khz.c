// SPDX-License-Identifier: GPL-2.0
/*
 * Print the frequency of this machine's TSC in kHz.
 *
 * Under TCG the guest's TSC is the host's, and too jittery for the guest to
 * calibrate: without tsc_early_khz= its kernel gives the TSC up and has a
 * clock of 10 ms steps.
 */
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

struct sample {
	long long ns;
	unsigned long long tsc;
};

/* Read both clocks at (nearly) one point in time: the closest of some tries. */
static struct sample read_clocks(void)
{
	unsigned long long before, after, best = -1ULL;
	struct sample s = { 0 };
	struct timespec ts;
	int i;

	for (i = 0; i < 20; i++) {
		before = __rdtsc();
		clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
		after = __rdtsc();
		if (after - before >= best)
			continue;
		best = after - before;
		s.tsc = before + best / 2;
		s.ns = ts.tv_sec * 1000000000LL + ts.tv_nsec;
	}
	return s;
}

int main(void)
{
	const struct timespec pause = { .tv_nsec = 50000000 };
	struct sample a, b;

	a = read_clocks();
	nanosleep(&pause, NULL);
	b = read_clocks();
	printf("%.0f\n", (b.tsc - a.tsc) * 1e6 / (b.ns - a.ns));
	return 0;
}
