// Command withkafka runs a command while a real Kafka runs whose address it finds in
// WICKER_KAFKA, so that all packages of a go test share one:
//
//	go run ./internal/withkafka go test ./...
//
// If WICKER_KAFKA is set already, that broker is used. Where there can be none the command runs
// without, its tests are skipped, and a line says so; with REQUIRE_KAFKA=1 that is an error. It
// exits as the command does, and the broker goes with it, also when it is killed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/wickerwork/wicker/testkit/kafka"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: withkafka command [argument ...]")
		os.Exit(2)
	}
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withkafka:", err)
	}
	os.Exit(code)
}

func run(command []string) (code int, err error) {
	// An interrupt goes to the command too; the broker ends after it.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if os.Getenv("WICKER_KAFKA") == "" {
		b, err := kafka.OpenReal(ctx, kafka.Options{HeapBytes: 1 << 30})
		switch {
		case err == nil:
			defer func() {
				if closeErr := b.Close(); closeErr != nil {
					code, err = max(code, 1), errors.Join(err, closeErr)
				}
			}()
			if err := os.Setenv("WICKER_KAFKA", b.Addr()); err != nil {
				return 1, err
			}
			fmt.Fprintf(os.Stderr, "withkafka: Kafka %s at %s\n", kafka.Version, b.Addr())
		case errors.Is(err, kafka.ErrUnavailable) && os.Getenv("REQUIRE_KAFKA") != "1":
			fmt.Fprintln(os.Stderr, "withkafka: SKIP all tests on a real Kafka:", err)
		default:
			return 1, err
		}
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil // it has said why itself
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}
