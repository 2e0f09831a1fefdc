// Package kvstoretest is the conformance suite of package kvstore: what an
// engine must do to be one. It checks the guarantees S1 to S12 of kvstore's
// documentation, the numbers standing at the checks, and compares long random
// sequences of calls with a plain map.
//
// An engine's test calls Run:
//
//	func TestConformance(t *testing.T) {
//		kvstoretest.Run(t, func(t *testing.T, dir string) kvstore.Engine {
//			return myengine.New(dir)
//		}, kvstoretest.Features{Persistent: true})
//	}
//
// The suite runs single-process. Locks between processes and crashes (S4, S10)
// are for the engine's own tests.
package kvstoretest
