/* empty.c - row 17's floor: the least a process that starts and ends can cost here. */
int main(void)
{
        return 0;
}
