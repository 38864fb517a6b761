"""Runs programs side by side."""

import heapq
import itertools
import threading

from pace import Pace


class Jobs:
    """Programs begin in the order of their priority, as fast as the pace allows. Other threads add programs and
    outcomes; the main thread runs them."""

    def __init__(self, n_at_a_time):
        self.pace = Pace(n_at_a_time)
        self.waiting = []  # a heap of (-priority, order, program)
        self.order = itertools.count()
        self.n_running = 0
        self.is_complete = False  # no more programs come
        self.outcomes = []
        self.changed = threading.Condition()

    def add(self, programs):
        with self.changed:
            for program in programs:
                heapq.heappush(self.waiting, (-program.priority, next(self.order), program))
            self.changed.notify()

    def complete(self):
        with self.changed:
            self.is_complete = True
            self.changed.notify()

    def stop(self):
        """Begins no more programs; those that run go on to their end."""
        with self.changed:
            self.waiting.clear()
            self.is_complete = True
            self.changed.notify()

    def run(self):
        with self.changed:
            while self.waiting or self.n_running or not self.is_complete:
                if self.waiting and self.pace.may_begin(self.n_running):
                    self.begin(heapq.heappop(self.waiting)[-1])
                else:
                    self.changed.wait(0.1)

    def begin(self, program):
        self.n_running += 1
        threading.Thread(target=self.run_one, args=(program,), daemon=True).start()

    def run_one(self, program):
        outcome = program.run()
        outcome.report()
        with self.changed:
            self.outcomes.append(outcome)
            self.n_running -= 1
            self.changed.notify()
