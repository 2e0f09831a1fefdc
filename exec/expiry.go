package exec

import (
	"errors"
	"sync"

	"github.com/wickerwork/wicker/exec/commitlog"
)

// How functions that take their time are kept from costing transactions.
//
// A transaction of the brokers begins with the first batch sent and is aborted when TransactionTimeout has passed; its
// producer is fenced then. At half the timeout after the task took the transaction's first record it
// is overdue: no other record goes into it, and it closes.
//
// A single call may take longer than what is left. Nothing of its own transaction may have been sent when it began, since
// outputs leave when a batch is full or the transaction closes; if something had been, the
// transaction is lost. The task then comes back careful: its transactions have one record each, whose
// outputs are sent when all its calls have returned, so that no call of any length can cost one. After
// carefulTransactions of them have committed it goes on as before.

// carefulTransactions is how many transactions of a single record follow one that expired.
const carefulTransactions = 16

// open notes that a transaction has its first record.
func (t *task) open() {
	t.overdue.Store(false)
	t.opened = t.app.cfg.Clock.Now()
	t.alarm.Reset(earlyClose(&t.app.cfg))
}

// watch raises overdue when the alarm fires, so that a batch need not ask for the time for each record. The function returned
// ends it. An alarm of a transaction that has closed meanwhile does no harm: the next one closes early.
func (t *task) watch() (stop func()) {
	t.alarm = t.app.cfg.Clock.NewTimer(farOff)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-t.alarm.C():
				t.overdue.Store(true)
			case <-quit:
				return
			}
		}
	}()
	return func() {
		t.alarm.Stop()
		close(quit)
		<-done
	}
}

// noteExpiry has the task come back careful if err is that its transaction has expired.
func (t *task) noteExpiry(err error) {
	if !errors.Is(err, commitlog.ErrTransactionTimeout) {
		return
	}
	at := ""
	if t.env.meta.At != nil {
		at = t.env.meta.At.String()
	}
	t.log.Warn("a transaction has expired: its records are processed again, one to a transaction", "operator", at,
		"TransactionTimeout", t.app.cfg.TransactionTimeout.String(), "error", err.Error())
	t.app.expiries.set(t.id, carefulTransactions)
}

// relax notes that a transaction has committed.
func (t *task) relax() {
	if t.careful == 0 {
		return
	}
	t.careful--
	t.app.expiries.set(t.id, t.careful)
}

// expiries remembers which tasks of a process are to be careful, and for how many transactions, when they come back.
// It is safe for concurrent use; the zero value remembers none.
type expiries struct {
	mu      sync.Mutex
	careful map[string]int
}

// set sets how many of a task's next transactions are careful.
func (x *expiries) set(task string, transactions int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if transactions == 0 {
		delete(x.careful, task)
		return
	}
	if x.careful == nil {
		x.careful = map[string]int{}
	}
	x.careful[task] = transactions
}

// of returns how many of a task's next transactions are careful.
func (x *expiries) of(task string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.careful[task]
}
