// SPDX-License-Identifier: GPL-2.0
/*
 * PID 1 of the test guest: run the entries of /kmmu/plan one after another,
 * report on the verdict port, end the machine.
 *
 * Plan, one record a line, fields separated by tabs:
 *
 *	nonce	HEX
 *	tripwire	EVENT	FILTER
 *	run	NAME	LIMIT_IN_GUEST_MILLISECONDS	SHELL COMMAND
 *
 * Report (KTAP) on the second serial port, which nobody else writes to:
 *
 *	KTAP version 1
 *	1..2
 *	# kmmu-begin NONCE 1 NAME
 *	# a line that the entry printed
 *	# kmmu-end NONCE 1 us=1234 tainted=0
 *	ok 1 NAME
 *	...
 *	# kmmu-verdict NONCE pass=1 fail=1 skip=0 tainted=0
 *
 * The tripwire, of which there is at most one, is a trace event that tells, where
 * the filter matches, that the emulator has failed.  Then the machine ends at once
 * without a verdict, after a last line:
 *
 *	# kmmu-tripped NONCE EVENT FILTER
 *
 * The verdict comes after everything else has been looked at, so a guest that
 * died early has none.  The console only gets marks ("kmmu: begin NAME",
 * "kmmu: end NAME") that tell which entry a splat belongs to.
 *
 * Nothing here wakes up without need: with an instruction-counting emulator
 * the guest must do the same work on every run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/serial_reg.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PLAN		"/kmmu/plan"
#define TESTS		"/tests"
#define SHELL		"/bin/sh"

#define TRACE_INSTANCE	"/sys/kernel/tracing/instances/kmmu"

#define VERDICT_PORT	0x2f8	/* ttyS1 */
#define QEMU_EXIT_PORT	0xf4	/* -device isa-debug-exit,iobase=0xf4 */
#define BOCHS_EXIT_PORT	0x8900	/* Bochs' "unmapped" device */

#define RC_SKIP		4	/* kselftest's KSFT_SKIP */
#define KILL_GRACE_MS	5000	/* what a killed process may need to die */

struct entry {
	char *name;
	long limit_ms;
	char *command;
};

/* What to look out for; trace_fd is -1 if there is nothing. */
struct tripwire {
	char *event, *filter;
	const char *nonce;
	int trace_fd;
};

/* A running entry: its shell, its output, and how it ended. */
struct job {
	pid_t pid;
	int pipe_fd;
	const struct tripwire *tripwire;
	bool mid_line;		/* the last output had no newline yet */
	int status;		/* from waitpid() */
	bool timeout;
	bool stuck;		/* killed, but did not go away */
};

struct tally {
	int pass;
	int fail;
	int skip;
};

static void end_machine(void)
{
	const char *p;

	sync();
	outb(0, QEMU_EXIT_PORT);
	for (p = "Shutdown"; *p; p++)
		outb(*p, BOCHS_EXIT_PORT);
	/* Neither emulator listens there?  A reset ends both as well. */
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok;

	if (fd < 0)
		return false;
	ok = write(fd, text, strlen(text)) >= 0;
	close(fd);
	return ok;
}

static void mark_console(const char *what, const char *name)
{
	char line[200];

	snprintf(line, sizeof(line), "<4>kmmu: %s %s\n", what, name);
	write_file("/dev/kmsg", line);
}

/* The one way out when the guest cannot do its job: no verdict is written. */
static void panic(const char *what)
{
	int err = errno;

	mark_console("init failed:", what);
	mark_console("errno:", strerror(err));
	end_machine();
}

static void mount_all(void)
{
	static const struct {
		const char *type, *dir;
		bool optional;	/* the profile decides whether it is built in */
	} mounts[] = {
		{ "proc",	"/proc" },
		{ "sysfs",	"/sys" },
		{ "devtmpfs",	"/dev" },
		{ "tmpfs",	"/tmp" },
		{ "tmpfs",	"/dev/shm" },
		{ "debugfs",	"/sys/kernel/debug",	true },
		{ "tracefs",	"/sys/kernel/tracing",	true },
		{ "hugetlbfs",	"/dev/hugepages",	true },
		{ }
	}, *m;

	for (m = mounts; m->type; m++) {
		mkdir(m->dir, 0755);
		if (mount(m->type, m->dir, m->type, 0, NULL) && !m->optional)
			panic(m->dir);
	}
}

static void set_up(void)
{
	struct rlimit files = { 65536, 65536 };

	/* First of all, so that panic() can end the machine. */
	if (iopl(3))
		panic("iopl");
	mount_all();
	/*
	 * The boot is quiet since the emulated UART is slow, but from here on
	 * the console shows every level: part of a stack dump is KERN_INFO.
	 */
	if (!write_file("/proc/sys/kernel/printk", "8"))
		panic("printk");
	if (setrlimit(RLIMIT_NOFILE, &files))
		panic("setrlimit");
	if (setenv("PATH", TESTS ":/bin", 1) || setenv("HOME", "/tmp", 1))
		panic("setenv");
	/* KVM's selftests find their own image through a relative argv[0]. */
	if (chdir(TESTS))
		panic(TESTS);
}

/*
 * The verdict port is driven by hand: what port_write() returns from is out on
 * the host, whatever the kernel does next, and no interrupt disturbs a test.
 */
static void port_init(void)
{
	outb(0, VERDICT_PORT + UART_IER);	/* no interrupts */
	outb(0, VERDICT_PORT + UART_FCR);	/* no FIFO */
	outb(UART_LCR_DLAB, VERDICT_PORT + UART_LCR);
	outb(1, VERDICT_PORT + UART_DLL);	/* 115200 baud */
	outb(0, VERDICT_PORT + UART_DLM);
	outb(UART_LCR_WLEN8, VERDICT_PORT + UART_LCR);
}

static void port_write(const char *buf, size_t len)
{
	while (len--) {
		outb(*buf++, VERDICT_PORT + UART_TX);
		while (!(inb(VERDICT_PORT + UART_LSR) & UART_LSR_TEMT))
			;
	}
}

__attribute__((format(printf, 1, 2)))
static void report(const char *fmt, ...)
{
	char line[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	port_write(line, strlen(line));
}

static char *read_plan(void)
{
	struct stat st;
	char *text;
	int fd;

	fd = open(PLAN, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		panic(PLAN);
	text = calloc(1, st.st_size + 1);
	if (!text || read(fd, text, st.st_size) != st.st_size)
		panic(PLAN);
	close(fd);
	/* The nonce is nobody else's business. */
	if (unlink(PLAN))
		panic(PLAN);
	return text;
}

static void parse_run(char *fields, struct entry *e)
{
	char *limit;

	e->name = strsep(&fields, "\t");
	limit = strsep(&fields, "\t");
	e->limit_ms = limit ? atol(limit) : 0;
	e->command = fields;
	if (!e->command || e->limit_ms <= 0)
		panic("bad run record in the plan");
}

/* Cut the plan's text into entries; returns their number. */
static int parse_plan(char *text, struct tripwire *tripwire, struct entry **entries)
{
	struct entry *list = NULL;
	char *line, *word;
	int n = 0;

	while ((line = strsep(&text, "\n"))) {
		word = strsep(&line, "\t");
		if (!strcmp(word, "nonce")) {
			tripwire->nonce = line;
		} else if (!strcmp(word, "tripwire")) {
			tripwire->event = strsep(&line, "\t");
			tripwire->filter = line;
		} else if (!strcmp(word, "run")) {
			list = reallocarray(list, n + 1, sizeof(*list));
			if (!list)
				panic("no memory for the plan");
			parse_run(line, &list[n++]);
		} else if (*word) {
			panic("unknown record in the plan");
		}
	}
	if (!tripwire->nonce || !n)
		panic("no nonce or no entry in the plan");
	*entries = list;
	return n;
}

static unsigned long read_taint(void)
{
	unsigned long taint;
	FILE *f;

	f = fopen("/proc/sys/kernel/tainted", "re");
	if (!f || fscanf(f, "%lu", &taint) != 1)
		panic("/proc/sys/kernel/tainted");
	fclose(f);
	return taint;
}

static long long now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000LL + ts.tv_nsec / 1000;
}

/* Pass output on, with "# " before every line. */
static void forward(struct job *job, const char *buf, size_t len)
{
	const char *end = buf + len, *stop;

	for (; buf < end; buf = stop) {
		if (!job->mid_line)
			port_write("# ", 2);
		stop = memchr(buf, '\n', end - buf);
		job->mid_line = !stop;
		stop = stop ? stop + 1 : end;
		port_write(buf, stop - buf);
	}
}

/* Pass on what the pipe holds now; false when all writers are gone. */
static bool forward_pipe(struct job *job)
{
	char buf[4096];
	ssize_t n;

	while ((n = read(job->pipe_fd, buf, sizeof(buf))) > 0)
		forward(job, buf, n);
	return n < 0;
}

static void exec_entry(const struct entry *e, int out)
{
	sigset_t none;
	int null;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	null = open("/dev/null", O_RDONLY);
	if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
		_exit(126);
	close(null);
	execl(SHELL, SHELL, "-c", e->command, NULL);
	_exit(127);
}

static void start_job(struct job *job, const struct entry *e)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) || fcntl(fds[0], F_SETFL, O_NONBLOCK))
		panic("pipe");
	job->pid = fork();
	if (job->pid < 0)
		panic("fork");
	if (!job->pid)
		exec_entry(e, fds[1]);
	close(fds[1]);
	job->pipe_fd = fds[0];
}

static int open_sigchld(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		panic("sigprocmask");
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		panic("signalfd");
	return fd;
}

/*
 * Collect dead processes, the job's and orphans.  Returns true when the job
 * is among them, or with @all when no process is left.
 */
static bool reap(struct job *job, int sigchld, bool all)
{
	struct signalfd_siginfo info;
	bool found = false;
	int status;
	pid_t pid;

	while (read(sigchld, &info, sizeof(info)) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == job->pid) {
			job->status = status;
			found = true;
		}
	}
	return all ? pid < 0 : found;
}

/*
 * Have the event recorded where the filter matches, in a trace of its own, which
 * tests that trace do not see.  A kernel without the event has no tripwire.
 */
static void set_tripwire(struct tripwire *wire)
{
	char path[200];

	wire->trace_fd = -1;
	if (!wire->filter || mkdir(TRACE_INSTANCE, 0755))
		return;
	snprintf(path, sizeof(path), TRACE_INSTANCE "/events/%s/filter", wire->event);
	if (!write_file(path, wire->filter))
		return;
	snprintf(path, sizeof(path), TRACE_INSTANCE "/events/%s/enable", wire->event);
	if (write_file(path, "1"))
		wire->trace_fd = open(TRACE_INSTANCE "/trace_pipe",
				      O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* End the machine if the event has been recorded. */
static void check_tripwire(const struct job *job)
{
	const struct tripwire *wire = job->tripwire;
	struct pollfd fd = { .fd = wire->trace_fd, .events = POLLIN };

	if (poll(&fd, 1, 0) <= 0)
		return;
	report("%s# kmmu-tripped %s %s %s\n", job->mid_line ? "\n" : "", wire->nonce,
	       wire->event, wire->filter);
	end_machine();
}

/*
 * Pass output on until the job (with @all: every process) has ended; false if
 * that takes longer than @limit_ms.
 */
static bool wait_for(struct job *job, int sigchld, long limit_ms, bool all)
{
	long long end = now_us() + limit_ms * 1000LL, left;
	struct pollfd fds[] = {
		{ .fd = sigchld,	.events = POLLIN },
		{ .fd = job->pipe_fd,	.events = POLLIN },
		{ .fd = job->tripwire->trace_fd,	.events = POLLIN },
	};

	while (!reap(job, sigchld, all)) {
		left = end - now_us();
		if (left <= 0)
			return false;
		poll(fds, 3, left / 1000 + 1);
		check_tripwire(job);
		if (!forward_pipe(job))
			fds[1].fd = -1;
	}
	forward_pipe(job);
	/* What ends a test may be the failure that the event tells of. */
	check_tripwire(job);
	return true;
}

static void run_entry(struct job *job, const struct entry *e, int sigchld)
{
	start_job(job, e);
	job->timeout = !wait_for(job, sigchld, e->limit_ms, false);
	/* This is PID 1, so -1 means every process that the entry left. */
	kill(-1, SIGKILL);
	job->stuck = !wait_for(job, sigchld, KILL_GRACE_MS, true);
	close(job->pipe_fd);
	if (job->mid_line)
		report("\n");
}

static void report_result(int nr, const struct entry *e, const struct job *job,
			  struct tally *tally)
{
	int rc = WIFEXITED(job->status) ? WEXITSTATUS(job->status) : -1;

	if (job->stuck) {
		tally->fail++;
		report("not ok %d %s # cannot be killed\n", nr, e->name);
	} else if (job->timeout) {
		tally->fail++;
		report("not ok %d %s # TIMEOUT\n", nr, e->name);
	} else if (rc < 0) {
		tally->fail++;
		report("not ok %d %s # signal=%d\n", nr, e->name,
		       WTERMSIG(job->status));
	} else if (rc == RC_SKIP) {
		tally->skip++;
		report("ok %d %s # SKIP rc=%d\n", nr, e->name, rc);
	} else if (rc) {
		tally->fail++;
		report("not ok %d %s # rc=%d\n", nr, e->name, rc);
	} else {
		tally->pass++;
		report("ok %d %s\n", nr, e->name);
	}
}

int main(void)
{
	struct tripwire tripwire = { 0 };
	struct tally tally = { 0 };
	struct entry *entries;
	int i, n, sigchld;
	long long start;
	const char *nonce;

	set_up();
	n = parse_plan(read_plan(), &tripwire, &entries);
	nonce = tripwire.nonce;
	set_tripwire(&tripwire);
	sigchld = open_sigchld();
	port_init();

	report("KTAP version 1\n1..%d\n", n);
	for (i = 0; i < n; i++) {
		struct job job = { .tripwire = &tripwire };

		report("# kmmu-begin %s %d %s\n", nonce, i + 1, entries[i].name);
		mark_console("begin", entries[i].name);
		start = now_us();
		run_entry(&job, &entries[i], sigchld);
		mark_console("end", entries[i].name);
		report("# kmmu-end %s %d us=%lld tainted=%lu\n", nonce, i + 1,
		       now_us() - start, read_taint());
		report_result(i + 1, &entries[i], &job, &tally);
		/* What cannot die holds locks that later entries need. */
		if (job.stuck)
			panic("an entry cannot be killed");
	}
	report("# kmmu-verdict %s pass=%d fail=%d skip=%d tainted=%lu\n", nonce,
	       tally.pass, tally.fail, tally.skip, read_taint());
	end_machine();
}
