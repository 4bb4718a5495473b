// Ways out of a Docker sandbox as shell scripts, each with what it has to print. What an attempt prints when it works is
// never what is expected, so an attempt that fails to run fails the test as well.

export type Attempt = Readonly<{ what: string; script: string; prints: RegExp }>;

/** Facts of the machine that the attempts aim at. */
export type Aim = Readonly<{ hostPid: number; hostFile: string; hostFileText: string; ownSocket: string }>;

export function attempts({ hostPid, hostFile, hostFileText, ownSocket }: Aim): readonly Attempt[] {
  return [
    {
      what: "finds no socket of the engine, of containerd or of anything else",
      script: `find / -xdev -type s 2>/dev/null | grep -v ^/run/pistis/
        for s in /var/run/docker.sock /run/containerd/containerd.sock; do [ -e $s ] && echo found $s; done
        echo "abstract: $(grep -c @ /proc/net/unix)"`,
      prints: /^abstract: 0\n$/,
    },
    {
      what: "finds its own socket in the relay's folder, cannot list it and cannot change it",
      script: `[ -S /run/pistis/${ownSocket} ] && echo mine; ls /run/pistis 2>&1; touch /run/pistis/x 2>&1
        rm -f /run/pistis/${ownSocket} 2>&1; chmod 755 /run/pistis 2>&1; [ -S /run/pistis/${ownSocket} ] && echo mine`,
      prints:
        /^mine\nls: .*Permission denied\ntouch: .*Read-only file system\nrm: .*Read-only file system\nchmod: .*\nmine\n$/,
    },
    {
      what: "cannot change pistisd",
      script: `(echo evil > /opt/pistis/pistisd-entry) 2>&1; rm -f /opt/pistis/pistisd-entry 2>&1; tail -n1 /opt/pistis/pistisd-entry`,
      prints: /(Read-only file system|Permission denied)\n.*(Read-only file system|Permission denied)\ndone\n$/,
    },
    {
      what: "can write to nothing of its image: its root file system is as good as read-only",
      script: `find / -xdev -writable ! -type l 2>/dev/null |
          grep -vE '^/(workspace|home/pistis|tmp|var/tmp|var/lib/pistisd|run/lock|proc|sys|dev)(/|$)'
        echo end`,
      prints: /^end\n$/,
    },
    {
      what: "has no writable control group, and no release agent",
      script: `find /sys/fs/cgroup -writable \\( -type f -o -type d \\) 2>/dev/null
        for f in $(find /sys/fs/cgroup -name cgroup.procs 2>/dev/null); do (echo $$ > $f) 2>/dev/null && echo moved $f; done
        for f in $(find / -xdev -name release_agent -o -name memory.max 2>/dev/null); do (echo max > $f) 2>/dev/null && echo wrote $f; done
        echo end`,
      prints: /^end\n$/,
    },
    {
      what: "cannot set what the kernel runs or how it runs",
      script: `for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sysrq-trigger /proc/sys/vm/overcommit_memory \\
          /proc/sys/kernel/randomize_va_space /sys/kernel/uevent_helper /proc/irq/default_smp_affinity; do
          (echo 1 > $f) 2>/dev/null && echo wrote $f
        done
        echo end`,
      prints: /^end\n$/,
    },
    {
      what: "reads nothing of the kernel's memory, keys and timers",
      script: `cat /proc/kcore /proc/keys /proc/timer_list /proc/latency_stats /proc/sched_debug /dev/kmsg /dev/mem 2>/dev/null | wc -c
        ls /proc/scsi /sys/firmware /proc/acpi 2>/dev/null | grep -v : | grep -c .; echo end`,
      prints: /^0\n0\nend\n$/,
    },
    {
      what: "has no device but the harmless ones",
      script: `ls -R /dev | grep -vxE '(fd|full|mqueue|null|ptmx|pts|random|shm|stderr|stdin|stdout|tty|urandom|zero|console|core|[0-9]*|/dev.*|)'
        find /dev -type b; echo end`,
      prints: /^end\n$/,
    },
    {
      what: "has no capability, no way to gain one, and a system-call filter",
      script: `grep -E '^(Cap[A-Z][a-z]+|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'`,
      prints: /^CapInh:0+\nCapPrm:0+\nCapEff:0+\nCapBnd:0+\nCapAmb:0+\nNoNewPrivs:1\nSeccomp:2\n$/,
    },
    {
      what: "gains nothing from programs that are another user's",
      script: `su root -c 'id -u' < /dev/null > /tmp/su 2>/dev/null; cat /tmp/su
        find / -xdev -perm -4000 -type f 2>/dev/null | head -n1 | grep -c .
        perl -e '$> = 0; print "euid $>\\n" if $> == 0; print "end\\n"'`,
      prints: /^1\nend\n$/,
    },
    {
      what: "sees no process of the machine or of another sandbox",
      script: `[ -e /proc/${hostPid} ] && echo sees; [ "$(ls -d /proc/[0-9]* | wc -l)" -lt 20 ] && echo few
        grep -l dockerd /proc/[0-9]*/comm 2>/dev/null; echo end`,
      prints: /^few\nend\n$/,
    },
    {
      what: "reads no file of the machine, by name or through a process",
      script: `cat ${hostFile} 2>/dev/null; for p in /proc/[0-9]*; do cat $p/root${hostFile} $p/cwd${hostFile} 2>/dev/null; done
        grep -rl ${hostFileText} /etc /home /mnt /media /opt /root /srv /tmp /var 2>/dev/null; echo end`,
      prints: /^end\n$/,
    },
    {
      what: "has no way to the network, to names or to metadata",
      script: `ls /sys/class/net; tail -n +2 /proc/net/route | wc -l; grep -vc ' lo$' /proc/net/if_inet6
        for a in 192.0.2.1/80 169.254.169.254/80 172.17.0.1/22; do (exec 3<>/dev/tcp/$a) 2>/dev/null && echo reached $a; done
        getent hosts localhost.example && echo resolved; echo end`,
      prints: /^lo\n0\n0\nend\n$/,
    },
    {
      what: "cannot start more processes than it may",
      script: `perl -e 'my @made; for (1 .. 400) { my $p = fork; last unless defined $p; if ($p) { push @made, $p } else { sleep 60; exit } }
        print scalar(@made) < 200 ? "bounded\\n" : "unbounded\\n"; kill 9, @made; 1 while wait > 0'`,
      prints: /^bounded\n$/,
    },
    {
      what: "cannot take more memory than it may, and goes on when a process tries",
      script: `(perl -e '$x = "a" x (1 << 30); print "took it\\n"') 2>/dev/null; echo "goes on"`,
      prints: /^(Killed\n)?goes on\n$/,
    },
    {
      what: "shares no memory and no message queue with the machine",
      script: `tail -qn +2 /proc/sysvipc/shm /proc/sysvipc/msg /proc/sysvipc/sem | wc -l; ls /dev/shm /dev/mqueue | grep -v : | grep -c .; echo end`,
      prints: /^0\n0\nend\n$/,
    },
  ];
}
