package bench;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The benchmark's workloads on Kafka Streams: {@code Streams WORKLOAD APP IN OUT STATE BROKER BROKER_PID [config=value ...]}.
 * It ends when everything is committed and prints one JSON object, with the fields of the Go side's. The workloads restore, crash
 * and rebalance print theirs as soon as they run, go on until SIGTERM or the end of standard input, and then print another one.
 */
public final class Streams {
    static final int PARTITIONS = 4;
    static final Serde<String> STRING = Serdes.String();
    static final Serde<byte[]> BYTES = Serdes.ByteArray();

    public static void main(String[] args) {
        try {
            run(args);
        } catch (Throwable t) {
            t.printStackTrace();
            System.exit(1);
        }
        System.exit(0); // some client threads are not daemons
    }

    static void run(String[] args) throws Exception {
        String workload = args[0], app = args[1], in = args[2], out = args[3], broker = args[5], pid = args[6];
        var config = new Properties();
        config.put("application.id", app);
        config.put("bootstrap.servers", broker);
        config.put("state.dir", args[4]);
        config.put("processing.guarantee", "exactly_once_v2");
        config.put("commit.interval.ms", "100");
        config.put("num.stream.threads", "2");
        for (String s : Arrays.copyOfRange(args, 7, args.length)) config.put(s.substring(0, s.indexOf('=')), s.substring(s.indexOf('=') + 1));
        switch (workload) {
            case "restore", "crash" -> instance(bump(in, out), config, pid);
            case "global" -> global(in, config, pid);
            case "rebalance" -> instance(count(in, out), config, pid);
            default -> throughput(workload, app, in, out, broker, pid, config);
        }
    }

    static final int LOOKUPS = 1_000_000;

    /** Reads a global table, and looks up in it. */
    static void global(String in, Properties config, String pid) throws Exception {
        var b = new StreamsBuilder();
        Materialized<String, byte[], KeyValueStore<Bytes, byte[]>> rows = "memory".equals(config.remove("bench.store"))
            ? Materialized.<String, byte[]>as(Stores.inMemoryKeyValueStore("rows")) : Materialized.as("rows");
        b.globalTable(in, Consumed.with(STRING, BYTES), rows.withKeySerde(STRING).withValueSerde(BYTES));
        var streams = new KafkaStreams(b.build(), config);
        var restored = new Restored();
        streams.setGlobalStateRestoreListener(restored);
        var running = running(streams, pid);
        Reading start = Reading.take(pid);
        streams.start();
        Reading ready = running.get();
        double rss = memory("VmRSS"), peak = memory("VmHWM");
        ReadOnlyKeyValueStore<String, byte[]> store = streams.store(StoreQueryParameters.fromNameAndType("rows", QueryableStoreTypes.<String, byte[]>keyValueStore()));
        var keys = new String[LOOKUPS];
        var random = new SplittableRandom(7);
        for (int i = 0; i < LOOKUPS; i++) keys[i] = String.format("key-%016d", random.nextInt((int) restored.records.get()));
        var missing = new AtomicLong();
        double one = lookups(store, keys, 1, missing), all = lookups(store, keys, Runtime.getRuntime().availableProcessors(), missing);
        print(restored.records.get(), start, start, ready, String.format(Locale.ROOT, "\"problem\":\"%s\",\"figures\":{\"ready_s\":%.3f,\"cpu_s\":%.3f,"
                + "\"rss_mib\":%.1f,\"peak_mib\":%.1f,\"lookups_per_s\":%.0f,\"parallel_lookups_per_s\":%.0f},",
            missing.get() == 0 ? "" : missing + " of the rows looked up were not there", ready.at - start.at, ready.cpu - start.cpu,
            rss / (1 << 20), peak / (1 << 20), one, all));
        streams.close(Duration.ofSeconds(20));
    }

    /** Looks all keys up in each of some threads, and returns how many they did in a second. */
    static double lookups(ReadOnlyKeyValueStore<String, byte[]> store, String[] keys, int threads, AtomicLong missing) throws Exception {
        double from = System.nanoTime() / 1e9;
        var all = IntStream.range(0, threads).mapToObj(t -> new Thread(() -> {
            long none = 0;
            for (int i = 0; i < keys.length; i++) if (store.get(keys[(i + t * keys.length / threads) % keys.length]) == null) none++;
            missing.addAndGet(none);
        })).toList();
        all.forEach(Thread::start);
        for (Thread t : all) t.join();
        return keys.length * (double) threads / (System.nanoTime() / 1e9 - from);
    }

    /** Processes everything that the input has, and measures that. */
    static void throughput(String workload, String app, String in, String out, String broker, String pid, Properties config) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker))) {
            var end = new HashMap<TopicPartition, Long>();
            var asked = new HashMap<TopicPartition, OffsetSpec>();
            IntStream.range(0, PARTITIONS).forEach(p -> asked.put(new TopicPartition(in, p), OffsetSpec.latest()));
            admin.listOffsets(asked).all().get().forEach((tp, o) -> end.put(tp, o.offset()));
            long records = end.values().stream().mapToLong(x -> x).sum();
            Supplier<Map<TopicPartition, Long>> target = () -> end;
            if (workload.equals("memo")) target = () -> memoTarget(app, end, records);
            Topology topology = switch (workload) {
                case "map" -> map(in, out);
                case "count" -> count(in, out);
                case "memo" -> memo(in, out);
                default -> throw new IllegalArgumentException(workload);
            };
            var streams = new KafkaStreams(topology, config);
            var running = running(streams, pid);
            Reading start = Reading.take(pid);
            streams.start();
            Reading from = running.get();
            await(admin, app, target);
            Reading to = Reading.take(pid);
            print(records, start, from, to);
            streams.close(Duration.ofSeconds(20));
        }
    }

    /** Completes with a reading when the instance first reports RUNNING. */
    static CompletableFuture<Reading> running(KafkaStreams streams, String pid) {
        var running = new CompletableFuture<Reading>();
        streams.setStateListener((now, old) -> {
            if (now == KafkaStreams.State.RUNNING) running.complete(Reading.take(pid));
            if (now == KafkaStreams.State.ERROR) running.completeExceptionally(new IllegalStateException("ERROR"));
        });
        return running;
    }

    /** Counts the changelog records that were read to restore state. */
    static final class Restored implements StateRestoreListener {
        final AtomicLong records = new AtomicLong();

        public void onRestoreStart(TopicPartition tp, String store, long from, long to) {}

        public void onBatchRestored(TopicPartition tp, String store, long offset, long n) { records.addAndGet(n); }

        public void onRestoreEnd(TopicPartition tp, String store, long n) {}
    }

    /**
     * Measures the time from start() to RUNNING, and then runs until it is told to end: by close(), or with bench.close=leave
     * by the one that leaves the group.
     */
    static void instance(Topology topology, Properties config, String pid) throws Exception {
        boolean leave = "leave".equals(config.remove("bench.close"));
        var streams = new KafkaStreams(topology, config);
        var restored = new Restored();
        streams.setGlobalStateRestoreListener(restored);
        var running = running(streams, pid);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            if (leave) streams.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP).withTimeout(Duration.ofSeconds(30)));
            else streams.close(Duration.ofSeconds(30));
            System.out.printf("{\"restored\":%d}%n", restored.records.get());
            System.out.flush();
        }));
        var parent = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (IOException e) {
                // as its end
            }
            System.exit(0);
        });
        parent.setDaemon(true);
        parent.start();
        Reading start = Reading.take(pid);
        streams.start();
        Reading to = running.get();
        print(restored.records.get(), start, start, to);
        System.out.flush();
        Thread.sleep(Long.MAX_VALUE);
    }

    /** Returns once the group's committed offsets reach the target, which is null while it is not known. */
    static void await(Admin admin, String group, Supplier<Map<TopicPartition, Long>> target) throws Exception {
        for (; ; Thread.sleep(50)) {
            var want = target.get();
            if (want == null) continue;
            var have = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            if (want.entrySet().stream().allMatch(e -> have.get(e.getKey()) != null && have.get(e.getKey()).offset() >= e.getValue())) return;
        }
    }

    // ---- workloads

    static byte[] concat(byte[] a, byte[] b) {
        byte[] o = Arrays.copyOf(a, a.length + b.length);
        System.arraycopy(b, 0, o, a.length, b.length);
        return o;
    }

    static Topology map(String in, String out) {
        var b = new StreamsBuilder();
        b.stream(in, Consumed.with(BYTES, BYTES)).mapValues(v -> {
            byte[] o = Arrays.copyOf(v, v.length + 1);
            o[v.length] = '!';
            return o;
        }).to(out, Produced.with(BYTES, BYTES));
        return b.build();
    }

    static Topology count(String in, String out) {
        var b = new StreamsBuilder();
        b.stream(in, Consumed.with(STRING, BYTES)).groupByKey(Grouped.with(STRING, BYTES))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("count"))
            .toStream().to(out, Produced.with(STRING, Serdes.Long()));
        return b.build();
    }

    /** The state of a key is 200 bytes; each input counts its first eight, decimal digits, up by one, and forwards them all. */
    static Topology bump(String in, String out) {
        var b = new StreamsBuilder();
        b.stream(in, Consumed.with(STRING, BYTES)).groupByKey(Grouped.with(STRING, BYTES))
            .aggregate(() -> null, (k, v, old) -> {
                byte[] a = old == null ? new byte[200] : old.clone();
                if (old == null) Arrays.fill(a, (byte) '0');
                for (int i = 7; i >= 0; i--) {
                    if (a[i]++ != '9') break;
                    a[i] = '0';
                }
                return a;
            }, Materialized.<String, byte[], KeyValueStore<Bytes, byte[]>>as("latest").withKeySerde(STRING).withValueSerde(BYTES))
            .toStream().to(out, Produced.with(STRING, BYTES));
        return b.build();
    }

    /** By partition: the offset after the last record of the repartition topic that was processed, and how many were; one writer a slot. */
    static final AtomicLongArray next = new AtomicLongArray(PARTITIONS), done = new AtomicLongArray(PARTITIONS);

    static Map<TopicPartition, Long> memoTarget(String app, Map<TopicPartition, Long> end, long records) {
        if (IntStream.range(0, PARTITIONS).mapToLong(done::getAcquire).sum() < records) return null;
        var target = new HashMap<>(end);
        IntStream.range(0, PARTITIONS).forEach(p -> target.put(new TopicPartition(app + "-by-field-repartition", p), next.getAcquire(p)));
        return target;
    }

    static final class Memo implements Processor<String, byte[], byte[], byte[]> {
        ProcessorContext<byte[], byte[]> context;
        KeyValueStore<String, byte[]> store;
        int partition;

        public void init(ProcessorContext<byte[], byte[]> c) {
            context = c;
            store = c.getStateStore("memo");
            partition = c.taskId().partition();
        }

        public void process(Record<String, byte[]> r) {
            byte[] answer = store.get(r.key());
            if (answer == null) {
                answer = Arrays.copyOf(("answer to " + r.key()).getBytes(StandardCharsets.US_ASCII), 100);
                store.put(r.key(), answer);
            }
            byte[] v = r.value(); // the original key of 16 bytes, then the original value
            context.forward(new Record<>(Arrays.copyOf(v, 16), concat(Arrays.copyOfRange(v, 16, v.length), answer), r.timestamp()));
            next.setRelease(partition, context.recordMetadata().get().offset() + 1);
            done.setRelease(partition, done.getPlain(partition) + 1);
        }
    }

    static Topology memo(String in, String out) {
        var b = new StreamsBuilder();
        b.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("memo"), STRING, BYTES));
        b.stream(in, Consumed.with(BYTES, BYTES))
            .map((k, v) -> KeyValue.pair(new String(v, 0, 4, StandardCharsets.US_ASCII), concat(k, v)))
            .repartition(Repartitioned.<String, byte[]>as("by-field").withKeySerde(STRING).withValueSerde(BYTES).withNumberOfPartitions(PARTITIONS))
            .process((ProcessorSupplier<String, byte[], byte[], byte[]>) Memo::new, "memo")
            .to(out, Produced.with(BYTES, BYTES));
        return b.build();
    }

    // ---- measuring

    /** The clock, and the CPU seconds of this process, of the broker and of the whole machine. */
    record Reading(double at, double cpu, double broker, double machine) {
        static Reading take(String pid) {
            var os = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
            return new Reading(System.nanoTime() / 1e9, os.getProcessCpuTime() / 1e9, brokerCpu(pid), machineCpu());
        }
    }

    static double brokerCpu(String pid) {
        try {
            String s = Files.readString(Path.of("/proc/" + pid + "/stat"));
            String[] f = s.substring(s.lastIndexOf(')') + 2).split(" ");
            return (Long.parseLong(f[11]) + Long.parseLong(f[12])) / 100.0;
        } catch (Exception e) {
            return 0;
        }
    }

    static double machineCpu() {
        try {
            String[] f = Files.readAllLines(Path.of("/proc/stat")).get(0).trim().split(" +");
            long busy = 0;
            for (int i = 1; i <= 8; i++) if (i != 4 && i != 5) busy += Long.parseLong(f[i]); // not idle, not waiting
            return busy / 100.0;
        } catch (Exception e) {
            return 0;
        }
    }

    static long peakBytes() throws Exception { return memory("VmHWM"); }

    static long memory(String field) throws Exception {
        for (String l : Files.readAllLines(Path.of("/proc/self/status")))
            if (l.startsWith(field + ":")) return Long.parseLong(l.replaceAll("\\D", "")) * 1024;
        return 0;
    }

    /** The version in the name of a jar on the class path. */
    static String jarVersion(String name) {
        for (String e : System.getProperty("java.class.path").split(":")) {
            String f = Path.of(e).getFileName().toString();
            if (f.startsWith(name + "-") && f.endsWith(".jar")) return f.substring(name.length() + 1, f.length() - 4);
        }
        return "";
    }

    static void print(long records, Reading start, Reading from, Reading to) throws Exception { print(records, start, from, to, ""); }

    static void print(long records, Reading start, Reading from, Reading to, String more) throws Exception {
        double seconds = to.at - from.at, cpu = to.cpu - from.cpu, broker = to.broker - from.broker;
        double other = Math.max(0, to.machine - from.machine - cpu - broker);
        System.out.printf(Locale.ROOT, "{\"records\":%d,\"seconds\":%.3f,\"records_per_s\":%.1f,\"cpu_s\":%.3f,\"cpu_us_per_record\":%.4f,"
                + "\"peak_rss_bytes\":%d,\"start_s\":%.3f,\"broker_cpu_s\":%.2f,\"other_cpu_s\":%.2f,%s"
                + "\"versions\":{\"java\":\"%s\",\"kafka-streams\":\"%s\",\"rocksdbjni\":\"%s\"}}%n",
            records, seconds, records / seconds, cpu, cpu * 1e6 / Math.max(1, records), peakBytes(), from.at - start.at, broker, other, more,
            System.getProperty("java.version"), jarVersion("kafka-streams"), jarVersion("rocksdbjni"));
    }
}
