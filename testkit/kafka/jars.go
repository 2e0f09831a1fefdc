package kafka

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// Version is the version of Apache Kafka that [OpenReal] runs. pom.xml names it too.
const Version = "4.4.0"

// minJava is the least Java that Kafka's servers run on.
const minJava = 17

// fetchTimeout bounds how long Maven may take to fetch Kafka.
const fetchTimeout = 5 * time.Minute

//go:embed pom.xml
var pom []byte

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// lookForKafka says whether a real broker can be run here. The first time on a machine it
// fetches Kafka's jars.
func lookForKafka(ctx context.Context) error {
	_, err := java(ctx)
	if err == nil {
		_, err = jars(ctx)
	}
	return err
}

// java returns the path of a java that can run Kafka: that of JAVA_HOME, or else of PATH.
func java(ctx context.Context) (string, error) {
	path := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		path = filepath.Join(home, "bin", "java")
	}
	path, err := exec.LookPath(path)
	if err != nil {
		return "", fmt.Errorf("%w: no java (is Java %d or newer installed?): %w", ErrUnavailable, minJava, err)
	}
	out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s -version: %w", ErrUnavailable, path, err)
	}
	m := javaVersion.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("%w: %s -version names no version", ErrUnavailable, path)
	}
	if v, err := strconv.Atoi(string(m[1])); err != nil || v < minJava {
		return "", fmt.Errorf("%w: %s is Java %s, must be >= %d", ErrUnavailable, path, m[1], minJava)
	}
	return path, nil
}

// jars returns the directory with Kafka's jars. It lives in the user's cache; Maven fills it
// once, for all processes that ask for it at the same time.
func jars(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	root := filepath.Join(cache, "wicker", "kafka-"+Version)
	lib := filepath.Join(root, "lib")
	if _, err := os.Stat(lib); err == nil {
		return lib, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	held, err := lock(ctx, filepath.Join(root, "lock"))
	if err != nil {
		return "", fmt.Errorf("wait for who else fetches Kafka: %w", err)
	}
	defer held.Close()
	if _, err := os.Stat(lib); err == nil { // somebody else fetched it meanwhile
		return lib, nil
	}

	maven, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("%w: no Kafka %s in %s and no mvn to fetch it (is Maven installed?): %w", ErrUnavailable, Version, root, err)
	}
	work, err := os.MkdirTemp(root, "fetch-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o644); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, maven, "-q", "-B", "-f", filepath.Join(work, "pom.xml"),
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(work, "lib"))
	cmd.Dir = work
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: mvn could not fetch Kafka %s: %w: %s", ErrUnavailable, Version, errors.Join(err, ctx.Err()), lastLines(string(out), 10))
	}
	// The rename is what others see: a directory that is there is complete.
	if err := os.Rename(filepath.Join(work, "lib"), lib); err != nil {
		return "", err
	}
	return lib, nil
}
