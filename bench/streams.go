package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// streamsProgram is the built Kafka Streams side.
type streamsProgram struct{ java, classPath string }

// heap is the most heap of its JVM.
const heap = "-Xmx4g"

// buildStreams builds the Kafka Streams programs in source with Maven, into dir. The error says
// what is missing on this machine.
func buildStreams(ctx context.Context, source, dir string) (*streamsProgram, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, errors.New("java is not on the PATH")
	}
	maven, err := exec.LookPath("mvn")
	if err != nil {
		return nil, errors.New("mvn (Maven) is not on the PATH")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	progress("build the Kafka Streams side with Maven")
	cmd := exec.CommandContext(ctx, maven, "-q", "-B", "-f", filepath.Join(source, "pom.xml"), "-Dbuild.dir="+dir, "package")
	if out, err := cmd.CombinedOutput(); err != nil {
		text := strings.TrimSpace(string(out))
		return nil, fmt.Errorf("mvn: %w: %s", err, text[max(0, len(text)-2000):])
	}
	// Each jar by its name, since their versions are reported.
	jars, err := filepath.Glob(filepath.Join(dir, "lib", "*.jar"))
	if err != nil {
		return nil, err
	}
	jars = append(jars, filepath.Join(dir, "streams-1.jar"))
	return &streamsProgram{java: java, classPath: strings.Join(jars, string(os.PathListSeparator))}, nil
}

// command is one run.
func (p *streamsProgram) command(ctx context.Context, j job) *exec.Cmd {
	args := []string{heap, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", p.classPath, "bench.Streams",
		j.Scenario, j.App, j.In, j.Out, j.State, j.Broker, strconv.Itoa(j.BrokerPID)}
	args = append(args, j.Settings...)
	if j.Client != "" {
		args = append(args, "client.id="+j.Client)
	}
	return exec.CommandContext(ctx, p.java, args...)
}
