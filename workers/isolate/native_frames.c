/* Prints the native frames of the thread that receives a fatal signal, then passes the signal on to the handler before.
 *
 * Several threads may receive one at once (XLA runs one thread per device): the first prints, the others wait for the end
 * of the process.
 */
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define MOST_FRAMES 64
static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
static const char heading[] = "Native frames, innermost first:\n";
static struct sigaction before[NSIG];
static volatile int printing;
static pthread_t printer;

static void print_frames(int number) {
  void *frames[MOST_FRAMES];
  if (__sync_lock_test_and_set(&printing, 1)) {
    while (!pthread_equal(printer, pthread_self())) pause();
    signal(number, SIG_DFL); /* the stack cannot be read: reading it caused a fatal signal again */
    raise(number);
  }
  printer = pthread_self();
  if (write(2, heading, sizeof heading - 1) > 0) backtrace_symbols_fd(frames, backtrace(frames, MOST_FRAMES), 2);
  sigaction(number, &before[number], 0);
  raise(number);
}

void watch(void) {
  void *frame;
  struct sigaction ours = {.sa_handler = print_frames, .sa_flags = SA_NODEFER | SA_ONSTACK};
  backtrace(&frame, 1); /* its first call loads a library, which a signal handler must not do */
  sigemptyset(&ours.sa_mask);
  for (unsigned i = 0; i < sizeof fatal / sizeof *fatal; i++) sigaction(fatal[i], &ours, &before[fatal[i]]);
}
